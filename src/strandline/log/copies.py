"""The arguments and the report of a copy of a whole log, for every store.

A copy has the log's id, and begins a new epoch at the end of each partition, so that
positions and cursors beyond that end are detected. See design 0060.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from strandline.log.store import still_there
from strandline.values import InvalidError, Marks, Offset, Partition, Topic, TrimmedError
from strandline.values.internal_topics import may_shorten

if TYPE_CHECKING:
    from strandline.log.log import Log

PartitionKey: TypeAlias = tuple[UUID, int]
"""The id of a topic, and a partition of it."""

Ends: TypeAlias = Mapping[PartitionKey, int]
"""Where the copy of a partition ends, for partitions not copied whole."""


class CopiedPartition(NamedTuple):
    """One partition of a copy: it holds the records [low, end)."""

    topic: Topic
    partition: Partition
    low: Offset
    end: Offset


Progress: TypeAlias = Callable[[CopiedPartition], None]
"""Called with each partition once it has been copied."""


def ends_at(log: "Log", moment_us: int) -> dict[PartitionKey, int]:
    """Return where each partition ends in a copy of the log as it was at a moment.

    Timestamps never fall within a partition, so each part copied is a prefix. Topics that are
    useless unless whole are copied whole: the segment catalogue, the later schemas, the
    tokens. See design 0109.
    """

    def look(topic: Topic) -> dict[PartitionKey, int]:
        return {
            (topic.id, partition): int(log.offset_at(topic, partition, moment_us))
            for partition in range(log.describe_topic(topic).settings.partitions)
        }

    ends: dict[PartitionKey, int] = {}
    for tenant in (None, *log.tenants()):
        listed = (*log.topics(tenant=tenant), *log.topics(tenant=tenant, internal=True))
        for found in still_there((each for each in listed if may_shorten(each.name)), look):
            ends |= found
    return ends


def end_of_copy(topic: Topic, partition: int, marks: Marks, ends: Ends) -> Offset:
    """Return where the copy of a partition ends.

    InvalidError for an end beyond the partition's, TrimmedError for one before its oldest
    record.
    """
    end = ends.get((topic.id, partition))
    if end is None:
        return marks.high
    fields = {"topic": topic.name, "partition": partition, "end": end}
    if end > marks.high:
        raise InvalidError("the log ends before that offset", high=marks.high, **fields)
    if end < marks.low:
        raise TrimmedError(marks.low, **fields)
    return Offset(end)


def check_provable(topic: Topic, partition: int, end: int, stored: int) -> None:
    """Raise InvalidError if the chain's value before `end` is not stored, so it cannot continue.

    `stored` is the oldest offset that is stored here, and so the lowest possible end, if older
    records were evicted.
    """
    if end < stored:
        raise InvalidError(
            "a topic with a proof cannot end among records that were evicted to the tier: end it"
            " at `oldest` or later, or name ends of other topics alone and leave this one whole",
            topic=topic.name,
            partition=partition,
            end=end,
            oldest=stored,
        )


def check_known(ends: Ends, known: Iterable[PartitionKey]) -> None:
    """Raise InvalidError if an end is given for an unknown partition."""
    unknown = sorted(ends.keys() - set(known))
    if unknown:
        topic_id, partition = unknown[0]
        raise InvalidError(
            "there is no such partition to end", topic_id=str(topic_id), partition=partition
        )
