"""Records settled beyond a consumer's cursor, stored with the cursor. See design 0110."""

from collections.abc import Iterable
from typing import NamedTuple

Runs = tuple[tuple[int, int], ...]
"""Runs [start, end) of offsets, ascending, with offsets left out between them."""


class Gaps(NamedTuple):
    """The records after the cursor that are not delivered: settled, or nacked with a delay."""

    settled: Runs = ()
    delays: Runs = ()
    """Nacked records, each with the time in microseconds of its next delivery."""

    @property
    def end(self) -> int:
        """One past the last settled record; 0 if there is none."""
        return self.settled[-1][1] if self.settled else 0

    @property
    def reach(self) -> int:
        """One past the last record that is settled or nacked; 0 if there is none."""
        return max(self.end, self.delays[-1][0] + 1 if self.delays else 0)

    def after(self, cursor: int) -> "Gaps":
        """Return the part that lies after a cursor that has moved."""
        if self is NO_GAPS:
            return self
        return Gaps(
            tuple((max(start, cursor), end) for start, end in self.settled if end > cursor),
            tuple(each for each in self.delays if each[0] >= cursor),
        )

    def before(self, high: int) -> "Gaps":
        """Return the part that lies before `high`."""
        return Gaps(
            tuple((start, min(end, high)) for start, end in self.settled if start < high),
            tuple(each for each in self.delays if each[0] < high),
        )

    @property
    def settled_count(self) -> int:
        """How many records are settled."""
        return sum(end - start for start, end in self.settled)

    def holes(self, cursor: int) -> Iterable[tuple[int, int]]:
        """Return the runs of unsettled records, from the cursor to `reach`."""
        starts = (cursor, *(end for _, end in self.settled))
        ends = (*(start for start, _ in self.settled), self.reach)
        return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


NO_GAPS = Gaps()
