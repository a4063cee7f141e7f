"""A file that stays open for as long as somebody holds it."""

import contextlib
import weakref

from strandline.io import Io, OpenMode


class OpenFile:
    """A descriptor that is closed when its last holder lets go of it.

    So that one thread may go on reading a file which another has replaced: a
    descriptor closed under its hands could by then be that of another file.
    """

    def __init__(self, io: Io, path: str, mode: OpenMode) -> None:
        self.path = path
        self.fd = io.open(path, mode)
        self._io = io
        self._close = weakref.finalize(self, _close, io, self.fd)
        # The process's end closes it, too.
        self._close.atexit = False
        self.inode = io.identity(self.fd)

    def is_in_place(self) -> bool:
        """Whether the path still leads to this very file."""
        try:
            return self._io.identity(self.path) == self.inode
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Close it now. For files that one thread uses."""
        self._close()


def _close(io: Io, fd: int) -> None:
    # Nothing is lost by it: what has to last was synced, and a lock ends either way.
    with contextlib.suppress(OSError):
        io.close(fd)
