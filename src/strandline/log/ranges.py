"""Ranges of offsets to read, and checks that they can be read."""

from collections.abc import Iterable
from typing import NamedTuple, TypedDict

from strandline.values import (
    EARLIEST,
    InvalidError,
    Marks,
    Offset,
    Start,
    Topic,
    TrimmedError,
)
from strandline.values.arguments import (
    INT64_MAX,
    check_flag,
    check_limit,
    check_options,
    check_whole,
)


class ReadLimits(TypedDict, total=False):
    """How much a read returns at most. See LogReader.read."""

    records_max: int | None
    bytes_max: int | None
    durable_only: bool


def _checked_start(start: object) -> int:
    if isinstance(start, Start):
        mark = "low" if start is EARLIEST else "high"
        raise InvalidError(
            f"a read starts at an offset, pass log.marks(topic, partition).{mark}", start=str(start)
        )
    return check_whole("start", start)


class ReadRange(NamedTuple):
    """The records [start, end), within limits; None stands for no limit."""

    start: int
    end: int | None = None
    records_max: int | None = None
    bytes_max: int | None = None
    #: Whether the read ends at the durable mark.
    durable_only: bool = False

    def checked(self) -> "ReadRange":
        """Return this range with plain numbers, or raise InvalidError."""
        start, end, records_max, bytes_max, durable_only = self
        is_plain = end is records_max is bytes_max is None
        if is_plain and type(start) is int and 0 <= start <= INT64_MAX:
            check_flag("durable_only", durable_only)
            return self
        return ReadRange(
            _checked_start(start),
            check_limit("end", end),
            check_limit("records_max", records_max),
            check_limit("bytes_max", bytes_max),
            check_flag("durable_only", durable_only),
        )

    @classmethod
    def of(cls, start: int, end: int | None, limits: ReadLimits) -> "ReadRange":
        """Return the range that a call's arguments describe, or raise InvalidError."""
        try:
            return cls(start, end, **limits).checked()
        except TypeError:
            check_options("read", limits, ReadLimits.__optional_keys__)
            raise

    def stop(self, marks: Marks) -> int:
        """Return one past the last offset to read in a partition with these marks."""
        stop = int(marks.durable if self.durable_only else marks.high)
        if self.end is not None:
            stop = min(stop, self.end)
        if self.records_max is not None:
            stop = min(stop, self.start + self.records_max)
        return max(self.start, stop)


class ReadSpan(NamedTuple):
    """The part of a range that a store reads: [start, end), within a limit; None is no limit."""

    start: int
    end: int
    bytes_max: int | None = None


def check_range(wanted: ReadRange, marks: Marks, oldest: int, topic: Topic, partition: int) -> int:
    """Return one past the last offset to read, or raise as `LogReader.read` says.

    `oldest` is the oldest offset that is stored here.
    """
    start = wanted.start
    check_kept(marks, start, topic, partition)
    if start < oldest:
        raise TrimmedError(oldest, **_place(topic, partition, start))
    if wanted.end is not None and wanted.end < start:
        raise InvalidError("the end lies before the start", start=start, end=wanted.end)
    return wanted.stop(marks)


def check_kept(marks: Marks, offset: int, topic: Topic, partition: int) -> Offset:
    """Return `offset` if it lies between the marks, else raise."""
    if offset < marks.low:
        raise TrimmedError(marks.low, **_place(topic, partition, offset))
    return check_not_beyond(marks, offset, topic, partition)


def check_not_beyond(marks: Marks, offset: int, topic: Topic, partition: int) -> Offset:
    """Return `offset` if it does not lie beyond the end, else raise InvalidError."""
    if offset > marks.high:
        raise InvalidError(
            "this offset lies beyond the end of the partition",
            **_place(topic, partition, offset),
            end=marks.high,
        )
    return Offset(offset)


def count_within(sizes: Iterable[int], bytes_max: int | None) -> int | None:
    """Return how many records of these sizes fit; at least one, unless the limit is 0.

    None if all of them do.
    """
    if bytes_max is None:
        return None
    if bytes_max == 0:
        return 0
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > bytes_max:
            return max(1, count)
    return None


def _place(topic: Topic, partition: int, offset: int) -> dict[str, object]:
    return {"topic": topic.name, "partition": partition, "offset": offset}
