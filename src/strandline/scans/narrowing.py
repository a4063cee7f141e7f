"""Which offsets can hold a wanted row, by bounds of the columns that rise with them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from strandline.log import Log
from strandline.predicates.bounds import Bound
from strandline.values import Topic

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def narrowed(
    log: Log, place: tuple[Topic, int], start: int, end: int, bounds: Iterable[Bound]
) -> tuple[int, int]:
    """Return the part of [start, end) outside of which no row meets the bounds.

    Offsets rise in a partition, and times of append never fall.
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
    return (value - _EPOCH) // _MICROSECOND
