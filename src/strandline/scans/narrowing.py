"""Computes which offsets can hold a matching row, without reading."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from strandline.log import Log
from strandline.predicates.bounds import Bound
from strandline.tiering.arrow_parts import dataset
from strandline.values import Topic
from strandline.values.instants import us_since_epoch


def narrowed(
    log: Log, place: tuple[Topic, int], start: int, end: int, bounds: Iterable[Bound]
) -> tuple[int, int]:
    """Return the part of [start, end) outside of which no row meets the bounds.

    Offsets rise in a partition, and times of append never decrease.
    """
    for bound in bounds:
        first, following = start, end
        if bound.column == "_partition":
            first, following = _of_partition(bound, place[1], start, end)
        elif bound.column == "_offset":
            first, following = _of_offset(bound, start, end)
        elif bound.column == "_timestamp":
            first, following = _of_time(log, place, bound, start, end)
        start, end = max(start, first), min(end, following)
    return (start, end) if start < end else (start, start)


def _of_partition(bound: Bound, partition: int, start: int, end: int) -> tuple[int, int]:
    meets = _of_offset(bound, partition, partition + 1)
    return (start, end) if meets[0] < meets[1] else (start, start)


def _of_offset(bound: Bound, start: int, end: int) -> tuple[int, int]:
    values = [each for each in bound.values if isinstance(each, int)]
    if not values or len(values) < len(bound.values):
        return start, end
    low, high = min(values), max(values)
    found = {
        "eq": (low, high + 1),
        "in": (low, high + 1),
        "lt": (start, high),
        "le": (start, high + 1),
        "gt": (low + 1, end),
        "ge": (low, end),
    }.get(bound.comparison, (start, end))
    return max(start, found[0]), min(end, found[1])


def _of_time(
    log: Log, place: tuple[Topic, int], bound: Bound, start: int, end: int
) -> tuple[int, int]:
    times = [_in_us(each) for each in bound.values]
    known = [each for each in times if each is not None and each >= 0]
    if not known or len(known) < len(times):
        return start, end
    first, following = start, end
    if bound.comparison in ("eq", "in", "ge", "gt"):
        first = log.offset_at(*place, min(known))
    if bound.comparison in ("eq", "in", "le", "lt"):
        following = log.offset_at(*place, max(known) + 1)
    return first, following


def _in_us(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return us_since_epoch(value)


class FilterRanges:
    """The part of an Arrow expression that concerns partition and offset."""

    def __init__(self, arrow_filter: Any, schema: pa.Schema) -> None:
        self._filter = arrow_filter
        self._schema = schema
        self._format = dataset().ParquetFileFormat()

    def narrowed(self, partition: int, start: int, end: int) -> tuple[int, int]:
        """Return the part of [start, end) outside of which no row meets the expression."""
        if start >= end or not self._may_meet(partition, start, end):
            return start, start
        first, following = start, end
        if not self._may_meet(partition, start, start + 1):
            first = _last(start, end, lambda cut: not self._may_meet(partition, start, cut))
        if not self._may_meet(partition, end - 1, end):
            mirrored = _last(-end, -first, lambda cut: not self._may_meet(partition, -cut, end))
            following = -mirrored
        return first, following

    def _may_meet(self, partition: int, start: int, end: int) -> bool:
        field, guarantee = dataset().field, dataset().scalar(value=True)
        if "_partition" in self._schema.names:
            guarantee &= field("_partition") == partition
        if "_offset" in self._schema.names:
            guarantee &= (field("_offset") >= start) & (field("_offset") <= end - 1)
        # Arrow skips files whose rows cannot meet a filter; this file is never opened.
        file = self._format.make_fragment(pa.BufferReader(b""), partition_expression=guarantee)
        files = dataset().FileSystemDataset([file], self._schema, self._format)
        return any(True for _ in files.get_fragments(self._filter))


def _last(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the last of [start, end) for which `holds`, as it does for the first."""
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start
