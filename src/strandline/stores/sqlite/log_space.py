"""Zeros after the write-ahead log's end, so that single appends do not grow the file."""

import contextlib
from typing import Final

from strandline.io import Io

#: A write-ahead log of up to this size is left alone.
SMALL_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024
_ZEROS: Final = bytes(PIECE_BYTES)


class LogSpace:
    """Extends the write-ahead log ahead of the writes. For the lock's holder.

    A sync of a file that has grown also stores its new size, which takes about twice as long.
    SQLite finds the end of the log by its frames: the bytes after it may be anything, as they
    are after each checkpoint.
    """

    def __init__(self, io: Io, path: str) -> None:
        self._io = io
        self._path = path
        #: The logged bytes at which the file is extended again.
        self.until: int = SMALL_BYTES

    def extend(self, logged_bytes: int) -> None:
        """Write zeros beyond approximately `logged_bytes`.

        The caller is in a transaction that writes and has written nothing yet: otherwise
        another connection, or its own, might write at the end of the file.
        """
        self.until = logged_bytes + PIECE_BYTES // 2
        # Appends work without it.
        with contextlib.suppress(OSError):
            fd = self._io.open(self._path, "write")
            try:
                size = self._io.size(fd)
                if size < logged_bytes + PIECE_BYTES:
                    self._io.pwrite(fd, _ZEROS, size)
            finally:
                self._io.close(fd)

    def begin_again(self) -> None:
        """Note that the log was checkpointed: it begins again, or was truncated."""
        self.until = SMALL_BYTES
