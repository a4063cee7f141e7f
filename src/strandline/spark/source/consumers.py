"""The log's own consumers, kept in step with how far a stream has come."""

import logging

from strandline.log import Log
from strandline.spark.source.positions import StreamPlace
from strandline.values import StrandlineError, Topic

_logger = logging.getLogger("strandline")


def keep_up(log: Log, place: StreamPlace) -> None:
    """Acknowledge everything before `place` for the stream's consumer.

    What cannot be said any more, of a topic that was dropped for instance, is logged:
    a stream does not fail because of it.
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
            _logger.warning("the consumer %r of a stream stays back: %s", place.consumer, error)


def consumer_tenant(topic: Topic, tenant: str | None) -> str | None:
    """Return whose consumer a reader of this topic is."""
    return topic.tenant if topic.tenant is not None else tenant
