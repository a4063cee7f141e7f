"""A set of offsets stored as runs, as small as the number of runs; no I/O."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class OffsetRuns:
    """Runs [start, end) of offsets, ascending, with offsets left out between them."""

    __slots__ = ("_ends", "_starts", "count")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.count: int = 0
        """The number of offsets."""
        for start, end in runs:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add these offsets."""
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
            self.count -= sum(self._ends[first:last]) - sum(self._starts[first:last])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        self.count += end - start

    def __contains__(self, offset: int) -> bool:
        return self.end_of(offset) is not None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def end_of(self, offset: int) -> int | None:
        """Return the end of the run that the offset is in; None if it is in none."""
        place = bisect_right(self._starts, offset) - 1
        return self._ends[place] if place >= 0 and offset < self._ends[place] else None

    def drop_before(self, offset: int) -> None:
        """Remove the offsets before this one."""
        place = bisect_right(self._ends, offset)
        self.count -= sum(self._ends[:place]) - sum(self._starts[:place])
        del self._starts[:place], self._ends[:place]
        if self._starts and self._starts[0] < offset:
            self.count -= offset - self._starts[0]
            self._starts[0] = offset


def runs_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs [start, end) of distinct offsets, ascending."""
    start = end = -1
    for offset in sorted(offsets):
        if offset != end:
            if start >= 0:
                yield start, end
            start = offset
        end = offset + 1
    if start >= 0:
        yield start, end
