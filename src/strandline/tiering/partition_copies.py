"""What the tier holds of one partition: which copy answers for which offset."""

from bisect import bisect_right
from collections.abc import Sequence
from uuid import UUID

from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    SegmentState,
)


class PartitionCopies:
    """The copies of one partition, in every state. Changed by the catalogue alone."""

    def __init__(self) -> None:
        self.segments: dict[UUID, CopiedSegment] = {}
        self.deletion: DeletionState | None = None
        #: For each epoch one past the highest offset that ever was in a finished copy.
        self.copied: dict[int, int] = {}
        #: The log may have let go of everything before this.
        self.evicted = 0
        #: In the order in which they were finished.
        self.finished: list[UUID] = []
        self._sorted: list[CopiedSegment] | None = None
        self._reach: list[int] = []

    def put(self, segment: CopiedSegment) -> None:
        """Add a segment, or replace it by itself in another state."""
        self._sorted = None
        earlier = self.segments.get(segment.id)
        self.segments[segment.id] = segment
        if segment.state is SegmentState.COPY_FINISHED:
            if earlier is None or earlier.state is not SegmentState.COPY_FINISHED:
                self.finished.append(segment.id)
            for number, _ in segment.epochs:
                run = segment.epoch_run(number)
                assert run is not None
                self.copied[number] = max(self.copied.get(number, 0), run[1])
        elif segment.id in self.finished:
            self.finished.remove(segment.id)
        if segment.state is SegmentState.DELETE_FINISHED:
            del self.segments[segment.id]

    def forget(self) -> None:
        """Forget every segment; that the partition was deleted stays known."""
        self.segments.clear()
        self.finished.clear()
        self.copied.clear()
        self.evicted = 0
        self._sorted = None

    # --- answers ---

    def find(self, epoch: int, offset: int) -> CopiedSegment | None:
        """Return the finished copy that answers for an offset of this epoch.

        Of several that cover it, the one in which the epoch starts last, and of those
        the one that was finished last.
        """
        best: CopiedSegment | None = None
        best_start = -1
        for segment in self._covering(offset):
            run = segment.epoch_run(epoch)
            # Later finished ones come first, so an equal start does not replace.
            if run is not None and run[0] <= offset < run[1] and run[0] > best_start:
                best, best_start = segment, run[0]
        return best

    def _covering(self, offset: int) -> list[CopiedSegment]:
        """Return the finished copies with this offset, the latest finished first."""
        if self._sorted is None:
            order = [self.segments[each] for each in self.finished]
            self._sorted = sorted(order, key=lambda segment: segment.start)
            self._reach = []
            for segment in self._sorted:
                self._reach.append(max(segment.end, self._reach[-1] if self._reach else 0))
        index = bisect_right(self._sorted, offset, key=lambda segment: segment.start) - 1
        found = []
        while index >= 0 and self._reach[index] > offset:
            if offset < self._sorted[index].end:
                found.append(self._sorted[index])
            index -= 1
        return sorted(found, key=lambda segment: self.finished.index(segment.id), reverse=True)

    def covered_to(self, start: int, besides: UUID | None = None) -> int:
        """Return how far the finished copies reach without a gap, one of them left out."""
        while True:
            ends = [each.end for each in self._covering(start) if each.id != besides]
            if not ends:
                return start
            start = max(ends)

    def listed(self, epoch: int | None = None) -> Sequence[CopiedSegment]:
        """Return all copies that are not deleted yet, by start and id; of one epoch if given."""
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
        runs = (self.segments[each].epoch_run(epoch) for each in self.finished)
        return max((run[1] - 1 for run in runs if run is not None), default=None)
