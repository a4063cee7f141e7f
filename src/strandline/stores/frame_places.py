"""The positions of a partition's frames in an engine's own numbering."""

from bisect import bisect_right
from typing import Final

#: How many positions a process caches for each partition.
_PLACES_MAX: Final = 4096


class FramePlaces:
    """The positions of frames that a process has seen. Not thread-safe."""

    def __init__(self) -> None:
        # Invariant: both rise, and the frame that begins at starts[i] has sequences[i].
        self._starts: list[int] = []
        self._sequences: list[int] = []

    def note(self, start: int, sequence: int) -> None:
        """Cache the position of a frame."""
        index = bisect_right(self._starts, start)
        if index and self._starts[index - 1] == start:
            return
        self._starts.insert(index, start)
        self._sequences.insert(index, sequence)
        if len(self._starts) > _PLACES_MAX:
            del self._starts[1::2]
            del self._sequences[1::2]

    def around(self, offset: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Return the nearest frames that begin at or before an offset, and after it."""
        index = bisect_right(self._starts, offset)
        before = (self._starts[index - 1], self._sequences[index - 1]) if index else None
        after = (self._starts[index], self._sequences[index]) if index < len(self._starts) else None
        return before, after

    def clear(self) -> None:
        """Forget everything."""
        self._starts.clear()
        self._sequences.clear()
