"""Disk space held in reserve for operations that must work on a full disk. See design 0124.

Acks, leases, trims and drops may use it; appends take new space only while it is complete.
So on a full disk appends are refused first, and operations that free space still work.
"""

import contextlib
import errno
from collections.abc import Callable
from typing import Final, TypeVar

from strandline.io import Io, file_system_of
from strandline.values import FullError

R = TypeVar("R")

RESERVE_BYTES: Final = 1024 * 1024
#: The system's errors for a full disk, and for a user's exhausted quota.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PIECE_BYTES = 64 * 1024
#: An append to a new segment takes slightly more than this at once.
_SCARCE_BYTES = 2 * RESERVE_BYTES


def is_full(error: BaseException | None) -> bool:
    """Whether this is the error of the system, or of a store, for a full disk."""
    return isinstance(error, FullError) or (isinstance(error, OSError) and error.errno in _FULL)


class DiskReserve:
    """A file of zeros whose blocks are released piece by piece. Any thread may use it."""

    def __init__(
        self, io: Io, path: str, size_bytes: Callable[[], int] = lambda: RESERVE_BYTES
    ) -> None:
        self._io = io
        self._path = path
        #: Returns the required size.
        self._size_bytes = size_bytes
        #: Bytes appended since it was last found to be complete.
        self._unchecked_bytes = _PIECE_BYTES

    def admit(self, size_bytes: int) -> None:
        """Return if an append of this size may proceed; OSError if the disk is full.

        Checks the reserve once per _PIECE_BYTES, and at each append while it is incomplete.
        """
        self._unchecked_bytes += size_bytes
        if self._unchecked_bytes >= _PIECE_BYTES:
            self.replenish()
            self._unchecked_bytes = 0

    def suspect(self) -> None:
        """Have the next append check the reserve: the disk was full a moment ago."""
        self._unchecked_bytes = _PIECE_BYTES

    def replenish(self) -> None:
        """Refill it; OSError if the disk has no room for that.

        If the file fails in any other way, appends work without it.
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
                # Writing zeros takes the space if the file system cannot preallocate it.
                self._io.pwrite(fd, bytes(wanted - known), known)
        except OSError:
            with contextlib.suppress(OSError):
                self._io.truncate(fd, known)
            raise
        finally:
            self._io.close(fd)

    def is_scarce(self) -> bool:
        """Whether the disk has no room beyond the reserve."""
        return file_system_of(self._path).free_bytes < _SCARCE_BYTES or self.is_spent()

    def is_spent(self) -> bool:
        """Whether a part of it was released, and is still missing."""
        try:
            return self._io.stat(self._path).size < self._size_bytes()
        except OSError:
            return False

    def release(self) -> bool:
        """Release a piece of it to the file system; False if nothing is left."""
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
        """Return the result of `work`, repeated with pieces of the reserve on a full disk."""
        while True:
            try:
                return work()
            except (OSError, FullError) as error:
                if not is_full(error) or not self.release():
                    raise
