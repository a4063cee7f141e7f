"""Moves the log's consumers with the progress of a stream."""

import logging

from strandline.log import Log
from strandline.spark.source.positions import StreamPlace
from strandline.values import StrandlineError, Topic

_logger = logging.getLogger("strandline")


def keep_up(log: Log, place: StreamPlace) -> None:
    """Acknowledge all records before `place` for the stream's consumer.

    If that fails, for instance because the topic was dropped, the error is logged; the stream
    does not fail.
    """
    topics = {topic.id: topic for topic in log.topics()}
    if place.tenant is not None:
        topics |= {topic.id: topic for topic in log.topics(tenant=place.tenant)}
    for (topic_id, partition), end in place.offsets.items():
        topic = topics.get(topic_id)
        if topic is None:
            continue
        tenant = consumer_tenant(topic, place.tenant)
        try:
            log.ack(topic, place.consumer, partition, end, tenant=tenant)
        except StrandlineError as error:
            _logger.warning("the consumer %r of a stream was not moved: %s", place.consumer, error)


def consumer_tenant(topic: Topic, tenant: str | None) -> str | None:
    """Return the tenant of the consumer with which this topic is read."""
    return topic.tenant if topic.tenant is not None else tenant
