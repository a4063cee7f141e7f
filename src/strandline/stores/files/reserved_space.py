"""Space behind the end of a segment: zeros on the disk ahead of what is written."""

from strandline.log.topics import is_internal_name
from strandline.stores.files.frame import HEADER_BYTES
from strandline.stores.files.place import Place
from strandline.stores.files.succession import RESERVE_MAX_BYTES, RESERVE_MIN_BYTES

#: The size from which on a write has no zeros written ahead of it.
_LARGE_BYTES = 128 * 1024


def ahead_bytes(place: Place, segment_bytes: int) -> int:
    """Return how many zeros are written at a time."""
    ahead = RESERVE_MIN_BYTES if is_internal_name(place.topic.name) else segment_bytes // 64
    return min(RESERVE_MAX_BYTES, max(RESERVE_MIN_BYTES, ahead))


class ReservedSpace:
    """How far a segment is zeros already: a sync of what replaces them changes no file's map."""

    def __init__(self, place: Place, segment_bytes: int) -> None:
        self._io = place.io
        self._reserve = place.reserve
        #: What consumers note of themselves goes on when the disk is full.
        self._is_internal = is_internal_name(place.topic.name)
        self._ahead = ahead_bytes(place, segment_bytes)
        self.end: int = 0

    def have(self, fd: int, position: int, size: int) -> None:
        """Have space for `size` bytes up to `position`, and for more.

        Where much is written at a time, that saves less than the zeros cost. OSError on a
        full disk, before anything of the write is there.
        """
        if not self._is_internal:
            self._reserve.replenish()
        start = max(self.end, position)
        if size >= _LARGE_BYTES:
            self._io.preallocate(fd, position)
            self.end = position
            return
        self._io.preallocate(fd, start + self._ahead)
        self._io.pwrite(fd, bytes(self._ahead), start)
        self.end = start + self._ahead

    def clear(self, fd: int, position: int) -> None:
        """Leave no frame at `position`, where one may have been written in part."""
        self.end = 0
        self._io.pwrite(fd, bytes(HEADER_BYTES), position)
