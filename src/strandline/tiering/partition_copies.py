"""The copies of one partition, and which of them to use for an offset."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from math import inf
from operator import attrgetter
from typing import Any
from uuid import UUID

from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    SegmentState,
)
from strandline.values import Epoch

_LIVE = (SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED)


class PartitionCopies:
    """The copies of one partition, in every state. Only the catalogue changes it.

    Because the catalogue folds all steps, the time of a step must not grow with the number of
    copies, except for a binary search among them.
    """

    def __init__(self) -> None:
        #: All copies except deleted ones.
        self.segments: dict[UUID, CopiedSegment] = {}
        self.deletion: DeletionState | None = None
        #: For each epoch, one past the highest offset that was ever in a finished copy.
        self.copied: dict[int, int] = {}
        #: The log may have evicted everything before this.
        self.evicted: int = 0
        #: The finished copies, numbered in the order of finishing.
        self._finished: dict[UUID, int] = {}
        self._finishes = 0
        #: The finished copies by start, except those merged into others; and for each of them
        #: the highest end up to there.
        self._sorted: list[CopiedSegment] = []
        self._reach: list[int] = []

    @property
    def finished(self) -> Sequence[UUID]:
        """The finished copies, in the order of finishing."""
        return list(self._finished)

    @cached_property
    def _live(self) -> dict[tuple[int, int], set[UUID]]:
        """The copies of each run that are being made or are finished. No reader needs it."""
        found: dict[tuple[int, int], set[UUID]] = {}
        for each in self.segments.values():
            if each.state in _LIVE:
                found.setdefault((each.start, each.end), set()).add(each.id)
        return found

    @cached_property
    def _successors(self) -> dict[UUID, UUID]:
        """Which copy, being made or finished, takes the place of another."""
        live = (each for each in self.segments.values() if each.state in _LIVE)
        return {before: each.id for each in live for before in each.predecessors}

    def restore(self, segments: Sequence[CopiedSegment], finished: Iterable[UUID]) -> None:
        """Restore these copies, as `put` one by one; `finished` is the order of finishing."""
        self.segments = {each.id: each for each in segments}
        self._finished = {each: number for number, each in enumerate(finished)}
        self._finishes = len(self._finished)
        done = [each for each in segments if each.state is SegmentState.COPY_FINISHED]
        merged = {known for each in done for known in each.merges}
        self._sorted = sorted((each for each in done if each.id not in merged), key=_start)
        self._reach = [*accumulate((each.end for each in self._sorted), max)]

    def put(self, segment: CopiedSegment) -> None:
        """Add a copy, or replace it by the same copy in another state."""
        earlier = self.segments.get(segment.id)
        if earlier is not None:
            self._take_out(earlier)
        if segment.state is SegmentState.DELETE_FINISHED:
            self.segments.pop(segment.id, None)
            return
        self.segments[segment.id] = segment
        if segment.state in _LIVE:
            self._live.setdefault((segment.start, segment.end), set()).add(segment.id)
            for each in segment.predecessors:
                self._successors[each] = segment.id
        if segment.state is SegmentState.COPY_FINISHED:
            if segment.id not in self._finished:
                self._finished[segment.id] = self._finishes
                self._finishes += 1
            for merged in self.merged_into(segment):
                self._remove(merged)
            if not self.is_merged(segment):
                self._put_in(segment)
            for number, (_, end) in segment.epoch_runs():
                self.copied[number] = max(self.copied.get(number, 0), end)
        else:
            self._finished.pop(segment.id, None)

    def _take_out(self, segment: CopiedSegment) -> None:
        run = segment.start, segment.end
        if segment.state in _LIVE:
            self._live[run].discard(segment.id)
            if not self._live[run]:
                del self._live[run]
        if segment.state is SegmentState.COPY_FINISHED:
            self._remove(segment)
        for each in segment.predecessors:
            if self._successors.get(each) == segment.id:
                del self._successors[each]
        if segment.state is SegmentState.COPY_FINISHED:
            for merged in self.merged_into(segment):
                self._put_in(merged)

    def _remove(self, segment: CopiedSegment) -> None:
        """Stop using a copy for answers; does nothing if it is not used."""
        at = bisect_left(self._sorted, segment.start, key=_start)
        while at < len(self._sorted) and self._sorted[at].start == segment.start:
            if self._sorted[at].id == segment.id:
                del self._sorted[at], self._reach[at]
                self._correct_reach(at)
                return
            at += 1

    def _put_in(self, segment: CopiedSegment) -> None:
        at = len(self._sorted)
        if at and self._sorted[-1].start > segment.start:
            at = bisect_right(self._sorted, segment.start, key=_start)
        self._sorted.insert(at, segment)
        self._reach.insert(at, 0)
        self._correct_reach(at)

    def _correct_reach(self, at: int) -> None:
        """Update the highest ends, from a copy that is new or was preceded by a new one."""
        before = self._reach[at - 1] if at else 0
        for index in range(at, len(self._sorted)):
            before = max(before, self._sorted[index].end)
            if self._reach[index] == before:
                return  # All following ones are right, too.
            self._reach[index] = before

    def clear(self) -> None:
        """Drop every copy; the deletion state of the partition stays."""
        self.evicted = 0
        for kept in (self.segments, self.copied, self._finished, self._live, self._successors):
            kept.clear()
        self._sorted.clear()
        self._reach.clear()

    # --- answers ---

    def current(self) -> Sequence[CopiedSegment]:
        """Return the finished copies, by start, except those merged into others."""
        return list(self._sorted)

    def successor(self, of: UUID) -> CopiedSegment | None:
        """Return the copy that replaces this one, if there is one."""
        found = self._successors.get(of)
        return None if found is None else self.segments[found]

    def is_merged(self, segment: CopiedSegment) -> bool:
        """Whether it was merged into a larger copy that is finished."""
        found = self.successor(segment.id)
        return (
            found is not None
            and found.state is SegmentState.COPY_FINISHED
            and segment.id in found.merges
        )

    def merged_into(self, segment: CopiedSegment) -> Sequence[CopiedSegment]:
        """Return the finished copies that it has merged and that still exist."""
        found = (self.segments.get(each) for each in segment.merges)
        return [
            each for each in found if each is not None and each.state is SegmentState.COPY_FINISHED
        ]

    def is_in_merged(self, start: int, end: int) -> bool:
        """Whether one finished copy that has merged others holds all of this run."""
        return any(each.merges and each.end >= end for each in self._covering(start))

    def live(self, start: int, end: int) -> UUID | None:
        """Return a copy of exactly this run that is being made or is finished."""
        return min(self._live.get((start, end), ()), default=None)

    def following(
        self, epochs: Sequence[Epoch], start: int, stop: int | None = None
    ) -> Sequence[CopiedSegment]:
        """Return the copies that answer for [start, stop), in order, up to the first gap.

        Without a `stop` as far as there are any.
        """
        found: list[CopiedSegment] = []
        at = bisect_left(self._sorted, start, key=_start)
        number, until = 0, float(start)
        while stop is None or start < stop:
            segment = self._alone(at, start)
            if start >= until:
                number, until = epoch_at(epochs, start), _next_epoch(epochs, start)
            if segment is None or segment.epochs[0][0] != number:
                segment = self.find(number, start)
            if segment is None:
                break
            found.append(segment)
            start = segment.end
            while at < len(self._sorted) and self._sorted[at].start < start:
                at += 1
        return found

    def _alone(self, at: int, offset: int) -> CopiedSegment | None:
        """Return the copy at this index, if it begins with the offset and no other covers that."""
        if at >= len(self._sorted) or self._sorted[at].start != offset:
            return None
        is_first = at == 0 or self._reach[at - 1] <= offset
        is_last = at + 1 == len(self._sorted) or self._sorted[at + 1].start > offset
        return self._sorted[at] if is_first and is_last else None

    def find(self, epoch: int, offset: int) -> CopiedSegment | None:
        """Return the finished copy to use for an offset of this epoch.

        If several cover it: the one in which the epoch starts last, and of those the one that
        was finished last.
        """
        best: CopiedSegment | None = None
        best_start = -1
        for segment in self._covering(offset):
            run = segment.epoch_run(epoch)
            # Ordered by finishing, latest first, so that an equal start does not replace.
            if run is not None and run[0] <= offset < run[1] and run[0] > best_start:
                best, best_start = segment, run[0]
        return best

    def _covering(self, offset: int) -> list[CopiedSegment]:
        """Return the finished copies with this offset, the latest finished first."""
        index = bisect_right(self._sorted, offset, key=_start) - 1
        found = []
        while index >= 0 and self._reach[index] > offset:
            if offset < self._sorted[index].end:
                found.append(self._sorted[index])
            index -= 1
        return sorted(found, key=lambda segment: self._finished[segment.id], reverse=True)

    def is_overlapped(self, start: int, end: int) -> bool:
        """Whether finished copies hold some of these records."""
        at = bisect_left(self._sorted, end, key=_start)
        return at > 0 and self._reach[at - 1] > start

    def covered_to(self, start: int, upto: int, besides: UUID | None = None) -> int:
        """Return how far the finished copies reach without a gap, optionally without one of them.

        Looks no further than `upto`, but may return more. If the omitted copy has merged
        others, those that still exist count.
        """
        left_out = None if besides is None else self.segments.get(besides)
        back = () if left_out is None else self.merged_into(left_out)
        while start < upto:
            ends = [each.end for each in self._covering(start) if each.id != besides]
            ends += [each.end for each in back if each.start <= start < each.end]
            if not ends:
                return start
            start = max(ends)
        return start

    def listed(self, epoch: int | None = None) -> Sequence[CopiedSegment]:
        """Return all copies that are not deleted, by start and id; of one epoch if given."""
        return sorted(
            (
                segment
                for segment in self.segments.values()
                if epoch is None or segment.epoch_run(epoch) is not None
            ),
            key=lambda segment: (segment.start, segment.id),
        )

    def readable(self, epoch: int) -> int | None:
        """Return the highest offset of this epoch that a finished copy holds now."""
        runs = (segment.epoch_run(epoch) for segment in self._sorted)
        return max((run[1] - 1 for run in runs if run is not None), default=None)


def epoch_at(epochs: Sequence[Epoch], offset: int) -> int:
    """Return the number of the epoch that a record belongs to."""
    at = bisect_right(epochs, offset, key=_epoch_start)
    return epochs[at - 1].number if at else 0


def _next_epoch(epochs: Sequence[Epoch], offset: int) -> float:
    """Return where the first epoch after that of a record begins."""
    at = bisect_right(epochs, offset, key=_epoch_start)
    return epochs[at].start if at < len(epochs) else inf


_epoch_start: Any = attrgetter("start")
_start: Any = attrgetter("start")
