"""The state of a partition, from its manifest and tail together."""

from bisect import bisect_right
from typing import Any, NamedTuple

from strandline.stores.files.manifest import Manifest, StoredSegment
from strandline.stores.files.tail import End
from strandline.values import Marks, Offset

# Calling a named tuple's class is slow, and each look makes one.
_new: Any = tuple.__new__


class State(NamedTuple):
    """A partition at one moment."""

    manifest: Manifest
    #: Where the last segment ends.
    position: int
    marks: Marks
    last_us: int
    #: The size of the records in the last segment.
    active_bytes: int
    #: The checksum of the last frame.
    crc: int

    @property
    def local(self) -> int:
        """The oldest offset that is stored here."""
        return max(self.marks.low, self.manifest.local)

    @property
    def size_bytes(self) -> int:
        """The size of the records stored here."""
        sealed = sum(each.size_bytes for each in self.manifest.segments[:-1])
        return sealed + self.active_bytes - self.manifest.trimmed_bytes

    def segment_of(self, offset: int) -> StoredSegment:
        """Return the segment with the record at `offset`."""
        segments = self.manifest.segments
        return segments[bisect_right(segments, offset, key=lambda each: each.base) - 1]

    def end_of(self, segment: StoredSegment) -> tuple[int, int]:
        """Return one past the segment's last offset, and where its last frame ends."""
        if segment.end is None or segment.position is None:
            return self.marks.high, self.position
        return segment.end, segment.position


def agrees(manifest: Manifest, end: End) -> bool:
    """Whether an end can be that of the manifest's last segment, at any time.

    Between the manifest of a new segment and its first tail, the end is that of the
    segment before. Any other disagreement means that one of the two files is an
    older copy. See design 0072.
    """
    active = manifest.segments[-1]
    if end.segment != active.number:
        return end.next == active.base
    return end.next >= max(active.base, manifest.low)


def state_at(manifest: Manifest, end: End, durable: int, known_durable: int) -> State:
    """Return the state of a partition with this end, durable up to the higher of two marks."""
    low = max(end.low, manifest.low)
    durable = max(low, manifest.segments[-1].base, min(max(durable, known_durable), end.next))
    marks = Marks(Offset(low), Offset(end.next), Offset(durable))
    state: State = _new(
        State, (manifest, end.position, marks, end.last_us, end.size_bytes, end.crc)
    )
    return state
