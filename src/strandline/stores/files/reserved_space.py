"""Space reserved after the end of a segment: zeros written to disk ahead of the frames."""

from strandline.log.topics import is_internal_name
from strandline.stores.files.frame import HEADER_BYTES
from strandline.stores.files.place import Place
from strandline.stores.files.succession import RESERVE_MAX_BYTES, RESERVE_MIN_BYTES

#: For writes of at least this size, no zeros are written ahead.
_LARGE_BYTES = 128 * 1024
#: So many times as much space is allocated for them: it costs a call, whatever its size.
_LARGE_STEPS = 4

#: How many zeros are written at a time at least, if that many are allowed.
_STEP_MIN_BYTES = 64 * 1024


def ahead_bytes(place: Place, segment_bytes: int) -> int:
    """Return how many zeros to write at a time at most."""
    ahead = RESERVE_MIN_BYTES if is_internal_name(place.topic.name) else segment_bytes // 64
    return min(RESERVE_MAX_BYTES, max(RESERVE_MIN_BYTES, ahead))


def step_bytes(ahead: int, end: int) -> int:
    """Return how many zeros to write after `end`: half of the file's size, at most `ahead`.

    So a partition with few records never has many, and a busy one writes them rarely.
    """
    return min(ahead, max(_STEP_MIN_BYTES, end // 2))


class ReservedSpace:
    """How far a segment holds zeros: a sync after overwriting them changes no file metadata."""

    def __init__(self, place: Place, segment_bytes: int) -> None:
        self._io = place.io
        self._reserve = place.reserve
        #: Consumers' own topics may still be written when the disk is full.
        self._is_internal = is_internal_name(place.topic.name)
        self._ahead = ahead_bytes(place, segment_bytes)
        self.end: int = 0
        #: Up to where the file system has allocated blocks, as far as is known.
        self._allocated = 0

    def begin(self, fd: int) -> None:
        """Continue with a segment, which has space up to its length."""
        self.end = self._io.size(fd)
        self._allocated = 0

    def have(self, fd: int, position: int, size: int) -> None:
        """Reserve space for `size` bytes up to `position`, which is beyond `end`, and more.

        For large writes, zeros cost more than they save: then blocks are allocated ahead, and
        no zeros are written. OSError on a full disk, before anything of the write is stored.
        """
        if size >= _LARGE_BYTES:
            if position > self._allocated:
                ahead = self._ahead * _LARGE_STEPS
                self._allocate(fd, position + step_bytes(ahead, position))
            self.end = position
        else:
            step = step_bytes(self._ahead, position)
            self._allocate(fd, position + step)
            self._io.pwrite(fd, bytes(step), position)
            self.end = position + step

    def _allocate(self, fd: int, end: int) -> None:
        if not self._is_internal:
            self._reserve.replenish()
        # If the file system cannot allocate, each append has to check for a full disk.
        self._allocated = end if self._io.preallocate(fd, end) else 0

    def clear(self, fd: int, position: int) -> None:
        """Clear `position`, where a frame may have been written in part."""
        self.end = self._allocated = 0
        self._io.pwrite(fd, bytes(HEADER_BYTES), position)
