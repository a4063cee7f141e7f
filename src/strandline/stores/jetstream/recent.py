"""The last frames of a partition that the server announced."""

import threading
from collections import deque
from itertools import takewhile
from typing import Final, NamedTuple

from strandline.stores.jetstream.frames import MessageFrame

#: How much of the latest announcements a process caches for each partition.
_BYTES_MAX: Final = 2 * 1024 * 1024
_FRAMES_MAX: Final = 256
_SMALL_BYTES: Final = 4096


class RecentFrame(NamedTuple):
    """A frame, its sequence in its stream, and its size."""

    sequence: int
    frame: MessageFrame
    size_bytes: int


class RecentFrames:
    """The last announced frames, without a gap. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: deque[RecentFrame] = deque()
        self._bytes = 0

    def add(self, frame: RecentFrame) -> None:
        """Add a frame, and drop the oldest beyond the limit."""
        with self._lock:
            if self._frames and frame.sequence <= self._frames[-1].sequence:
                return
            if self._frames and frame.sequence != self._frames[-1].sequence + 1:
                self._clear()
            self._frames.append(frame)
            self._bytes += frame.size_bytes
            while self._bytes > _BYTES_MAX or len(self._frames) > _FRAMES_MAX:
                self._bytes -= self._frames.popleft().size_bytes

    def since(self, offset: int) -> list[MessageFrame]:
        """Return the frames from the one with this offset on; empty if that is not cached."""
        with self._lock:
            later = takewhile(lambda each: each.frame.end > offset, reversed(self._frames))
            found = [each.frame for each in later]
        found.reverse()
        return found if found and found[0].start <= offset else []

    @property
    def end(self) -> int | None:
        """Where the last frame ends; None if there is none."""
        with self._lock:
            return self._frames[-1].frame.end if self._frames else None

    @property
    def ends_small(self) -> bool:
        """Whether there is a last frame and it is small."""
        with self._lock:
            return bool(self._frames) and self._frames[-1].size_bytes <= _SMALL_BYTES

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._frames.clear()
        self._bytes = 0
