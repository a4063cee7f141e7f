"""Where a registered consumer starts: one rule for every store."""

from collections.abc import Mapping

from strandline.log.terms import check_partition
from strandline.values import InvalidError, Marks, Offset, Partition, Topic
from strandline.values.arguments import check_instance, check_whole


def check_starts(starts: Mapping[int, int], partitions: int) -> Mapping[Partition, int]:
    """Return the starts if the topic has these partitions, else raise InvalidError."""
    check_instance("starts", starts, Mapping)  # type: ignore[type-abstract]
    return {
        check_partition(partition, partitions): check_whole("start", start)
        for partition, start in starts.items()
    }


def registered_at(cursor: Offset | None, start: int, marks: Marks, topic: Topic) -> Offset:
    """Return the cursor if there is one, else the offset at which `start` creates it."""
    if cursor is not None:
        return cursor
    if start > marks.high:
        raise InvalidError(
            "this start offset lies beyond the end of the partition",
            topic=topic.name,
            start=start,
            end=marks.high,
        )
    return Offset(max(start, marks.low))
