"""Space behind the end of a segment: zeros on the disk ahead of what is written."""

from strandline.io import Io
from strandline.stores.files.succession import RESERVE_MAX_BYTES, RESERVE_MIN_BYTES

#: The size from which on a write has no zeros written ahead of it.
_LARGE_BYTES = 128 * 1024


class ReservedSpace:
    """How far a segment is zeros already: a sync of what replaces them changes no file's map."""

    def __init__(self, io: Io, segment_bytes: int) -> None:
        self._io = io
        self._ahead = min(RESERVE_MAX_BYTES, max(RESERVE_MIN_BYTES, segment_bytes // 64))
        self.end = 0

    def have(self, fd: int, position: int, size: int) -> None:
        """Have space for `size` bytes up to `position`, and for more.

        Where much is written at a time, that saves less than the zeros cost.
        """
        start = max(self.end, position)
        if size >= _LARGE_BYTES:
            self.end = position
            return
        self._io.preallocate(fd, start + self._ahead)
        self._io.pwrite(fd, bytes(self._ahead), start)
        self.end = start + self._ahead
