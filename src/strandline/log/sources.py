"""Topics that other programs write: they are only read here, and have holes. See design 0131."""

from typing import Protocol, cast

from strandline.log.store import Store, StoredTopic, T_contra
from strandline.values import InvalidError, Offset, TopicSettings


class SourceStore(Protocol[T_contra]):
    """What a store with `has_sources` has besides."""

    def offset_since(self, topic: T_contra, partition: int, timestamp_us: int) -> Offset:
        """Return the first offset of a message with this timestamp or a later one, or the end.

        Messages have the timestamps that their writers gave them: later ones may have earlier.
        """


def source_of(store: Store[StoredTopic]) -> SourceStore[StoredTopic]:
    """Return a store that has topics with a source as such."""
    return cast("SourceStore[StoredTopic]", store)


def check_sources(store: Store[StoredTopic], settings: TopicSettings) -> None:
    """Raise InvalidError for a topic with a source where there are none."""
    if settings.source is not None and not store.capabilities.has_sources:
        raise InvalidError(
            "only a log on Kafka reads topics that other programs write, leave source out",
            source=settings.source,
        )


def check_own(topic: StoredTopic) -> None:
    """Raise InvalidError unless this log writes the topic."""
    if topic.settings.source is not None:
        raise InvalidError(
            "this topic is only read here, other programs write it: append and set retention there"
            " with a client of Kafka's, or in another topic of this log",
            topic=topic.topic.name,
            source=topic.settings.source,
        )


def check_has_no_holes(topic: StoredTopic, what: str) -> None:
    """Raise InvalidError for what needs a record at each offset, where a topic may have holes."""
    if topic.settings.source is not None:
        raise InvalidError(
            f"{what} needs a record at each offset, and what other programs write has holes:"
            " append it to a topic of this log with a consumer first",
            topic=topic.topic.name,
            source=topic.settings.source,
        )
