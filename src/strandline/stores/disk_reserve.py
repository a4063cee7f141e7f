"""Space kept back for what has to work on a full disk. See design 0124.

Acks, leases, trims and drops may use it; appends take new space only while it is whole. So
a full disk refuses appends first, and what frees space goes on.
"""

import contextlib
import errno
from collections.abc import Callable
from typing import Final, TypeVar

from strandline.io import Io, file_system_of
from strandline.values import FullError

R = TypeVar("R")

RESERVE_BYTES: Final = 1024 * 1024
#: What the system says of a full disk, and of a user's quota that is used up.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PIECE_BYTES = 64 * 1024
#: An append to a new segment takes this much at once, and a little more.
_SCARCE_BYTES = 2 * RESERVE_BYTES


def is_full(error: BaseException | None) -> bool:
    """Whether this is what the system, or a store, says of a full disk."""
    return isinstance(error, FullError) or (isinstance(error, OSError) and error.errno in _FULL)


class DiskReserve:
    """A file of zeros whose blocks are given back a piece at a time. Any thread may use it."""

    def __init__(
        self, io: Io, path: str, size_bytes: Callable[[], int] = lambda: RESERVE_BYTES
    ) -> None:
        self._io = io
        self._path = path
        #: Returns how large it has to be now.
        self._size_bytes = size_bytes
        #: How much was appended since it was last found to be whole.
        self._unchecked_bytes = _PIECE_BYTES

    def admit(self, size_bytes: int) -> None:
        """Let an append of this size go on; OSError where the disk is full.

        It looks at the reserve once for so many bytes, and each time while that is not whole.
        """
        self._unchecked_bytes += size_bytes
        if self._unchecked_bytes >= _PIECE_BYTES:
            self.replenish()
            self._unchecked_bytes = 0

    def suspect(self) -> None:
        """Have the next append look at the reserve: the disk was full a moment ago."""
        self._unchecked_bytes = _PIECE_BYTES

    def replenish(self) -> None:
        """Have all of it; OSError where there is no room for that.

        Whatever else is wrong with the file, appends go on without it.
        """
        try:
            self._fill()
        except OSError as error:
            if is_full(error):
                raise

    def _fill(self) -> None:
        wanted = self._size_bytes()
        try:
            known = self._io.stat(self._path).size
        except FileNotFoundError:
            known = 0
        if known >= wanted:
            return
        fd = self._io.open(self._path, "create")
        try:
            if not self._io.preallocate(fd, wanted):
                # Zeros take the space that the file system does not reserve ahead.
                self._io.pwrite(fd, bytes(wanted - known), known)
        except OSError:
            with contextlib.suppress(OSError):
                self._io.truncate(fd, known)
            raise
        finally:
            self._io.close(fd)

    def is_scarce(self) -> bool:
        """Whether the disk has no room for more than what is kept back."""
        return file_system_of(self._path).free_bytes < _SCARCE_BYTES or self.is_spent()

    def is_spent(self) -> bool:
        """Whether some of it was given back, and is missing since."""
        try:
            return self._io.stat(self._path).size < self._size_bytes()
        except OSError:
            return False

    def release(self) -> bool:
        """Give a piece of it back to the file system; False if nothing is left."""
        try:
            fd = self._io.open(self._path, "write")
            try:
                known = self._io.size(fd)
                self._io.truncate(fd, max(0, known - max(_PIECE_BYTES, known // 4)))
            finally:
                self._io.close(fd)
        except OSError:
            return False
        return known > 0

    def spend(self, work: Callable[[], R]) -> R:
        """Return what `work` returns; it is repeated with pieces of the reserve on a full disk."""
        while True:
            try:
                return work()
            except (OSError, FullError) as error:
                if not is_full(error) or not self.release():
                    raise
