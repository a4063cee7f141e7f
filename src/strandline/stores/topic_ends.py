"""Identifies the watched marks of a partition by topic and number."""

from typing import NamedTuple

from strandline.log.store import StoredTopic
from strandline.values import Topic


class TopicEnd(NamedTuple):
    """A partition, and which of its marks is watched."""

    topic: Topic
    partition: int
    durable_only: bool


def topic_end(topic: StoredTopic, partition: int, durable_only: bool) -> TopicEnd:
    """Return an end of a partition of a topic as its store knows it."""
    return TopicEnd(topic.topic, partition, durable_only)


def both_ends(topic: Topic, partition: int) -> list[TopicEnd]:
    """Return both ends of a partition."""
    return [TopicEnd(topic, partition, only) for only in (False, True)]


def ends_of(topic: StoredTopic) -> list[TopicEnd]:
    """Return both ends of every partition of a topic."""
    numbers = range(topic.settings.partitions)
    return [place for number in numbers for place in both_ends(topic.topic, number)]
