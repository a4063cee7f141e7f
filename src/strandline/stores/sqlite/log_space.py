"""Zeros ahead of the write-ahead log's end, so that single appends do not make the file grow."""

import contextlib
from typing import Final

from strandline.io import Io

#: A log of so few bytes is left as it is.
SMALL_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024
_ZEROS: Final = bytes(PIECE_BYTES)


class LogSpace:
    """Extends the write-ahead log ahead of what is written to it. The lock holder's.

    A sync of a file that has grown stores its new size as well, which takes about as long again.
    SQLite finds the end of the log by its frames: what follows them may be anything, as it is
    after each checkpoint.
    """

    def __init__(self, io: Io, path: str) -> None:
        self._io = io
        self._path = path
        #: How much has to be logged before it is looked at again.
        self.until: int = SMALL_BYTES

    def extend(self, logged_bytes: int) -> None:
        """Have zeros ahead of about so much that is logged.

        The caller is in a transaction that writes and has written nothing yet: otherwise
        another connection, or its own, might write where the file ends.
        """
        self.until = logged_bytes + PIECE_BYTES // 2
        # Without it, appends go on as well.
        with contextlib.suppress(OSError):
            fd = self._io.open(self._path, "write")
            try:
                size = self._io.size(fd)
                if size < logged_bytes + PIECE_BYTES:
                    self._io.pwrite(fd, _ZEROS, size)
            finally:
                self._io.close(fd)

    def begin_again(self) -> None:
        """The log was moved into the database: it begins again, or was cut."""
        self.until = SMALL_BYTES
