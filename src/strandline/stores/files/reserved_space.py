"""Space behind the end of a segment: zeros on the disk ahead of what is written."""

from strandline.log.topics import is_internal_name
from strandline.stores.files.frame import HEADER_BYTES
from strandline.stores.files.place import Place
from strandline.stores.files.succession import RESERVE_MAX_BYTES, RESERVE_MIN_BYTES

#: The size from which on a write has no zeros written ahead of it.
_LARGE_BYTES = 128 * 1024


#: How many zeros are written at a time at least, where as many are allowed.
_STEP_MIN_BYTES = 64 * 1024


def ahead_bytes(place: Place, segment_bytes: int) -> int:
    """Return how many zeros are written at a time at most."""
    ahead = RESERVE_MIN_BYTES if is_internal_name(place.topic.name) else segment_bytes // 64
    return min(RESERVE_MAX_BYTES, max(RESERVE_MIN_BYTES, ahead))


def step_bytes(ahead: int, end: int) -> int:
    """Return how many zeros to write behind `end`: half of what is there, `ahead` at most.

    So a partition that gets little never has many, and one that gets much writes few times.
    """
    return min(ahead, max(_STEP_MIN_BYTES, end // 2))


class ReservedSpace:
    """How far a segment is zeros already: a sync of what replaces them changes no file's map."""

    def __init__(self, place: Place, segment_bytes: int) -> None:
        self._io = place.io
        self._reserve = place.reserve
        #: What consumers note of themselves goes on when the disk is full.
        self._is_internal = is_internal_name(place.topic.name)
        self._ahead = ahead_bytes(place, segment_bytes)
        self.end: int = 0
        #: Up to where the file system has reserved blocks, as far as is known.
        self._allocated = 0

    def begin(self, fd: int) -> None:
        """Go on with a segment, which has space up to its length."""
        self.end = self._io.size(fd)
        self._allocated = 0

    def have(self, fd: int, position: int, size: int) -> None:
        """Have space for `size` bytes up to `position`, which is beyond `end`, and for more.

        Where much is written at a time, zeros cost more than they save: then blocks are
        allocated ahead, and no zeros written. OSError on a full disk, before anything of the
        write is there.
        """
        step = step_bytes(self._ahead, position)
        if position > self._allocated or size < _LARGE_BYTES:
            self._allocate(fd, position + step)
        if size >= _LARGE_BYTES:
            self.end = position
        else:
            self._io.pwrite(fd, bytes(step), position)
            self.end = position + step

    def _allocate(self, fd: int, end: int) -> None:
        if not self._is_internal:
            self._reserve.replenish()
        # Where none can be reserved, each append has to look whether the disk is full.
        self._allocated = end if self._io.preallocate(fd, end) else 0

    def clear(self, fd: int, position: int) -> None:
        """Leave no frame at `position`, where one may have been written in part."""
        self.end = self._allocated = 0
        self._io.pwrite(fd, bytes(HEADER_BYTES), position)
