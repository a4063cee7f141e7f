"""Topics that other programs write: only read here, with gaps in offsets. See design 0131."""

from typing import Protocol, cast

from strandline.log.store import Store, StoredTopic, T_contra
from strandline.values import InvalidError, Offset, TopicSettings


class SourceStore(Protocol[T_contra]):
    """What a store with `has_sources` offers besides."""

    def offset_since(self, topic: T_contra, partition: int, timestamp_us: int) -> Offset:
        """Return the first offset with this timestamp or a later one, or the end.

        Timestamps are those that the writers set, and may fall from one message to the next.
        """


def source_of(store: Store[StoredTopic]) -> SourceStore[StoredTopic]:
    """Return the store, typed as one whose topics may have a source."""
    return cast("SourceStore[StoredTopic]", store)


def check_sources(store: Store[StoredTopic], settings: TopicSettings) -> None:
    """Raise InvalidError for a topic with a source if the store cannot read such topics."""
    if settings.source is not None and not store.capabilities.has_sources:
        raise InvalidError(
            "only a log on Kafka reads topics that other programs write, leave source out",
            source=settings.source,
        )


def check_own(topic: StoredTopic) -> None:
    """Raise InvalidError unless this log writes the topic."""
    if topic.settings.source is not None:
        raise InvalidError(
            "this topic is written by other programs and only read here: append and set retention"
            " with a Kafka client, or use another topic of this log",
            topic=topic.topic.name,
            source=topic.settings.source,
        )


def check_has_no_holes(topic: StoredTopic, what: str) -> None:
    """Raise InvalidError if `what` needs a record at each offset, and the topic may have gaps."""
    if topic.settings.source is not None:
        raise InvalidError(
            f"{what} needs a record at each offset, but a topic that other programs write has gaps:"
            " copy it to a topic of this log with a consumer first",
            topic=topic.topic.name,
            source=topic.settings.source,
        )
