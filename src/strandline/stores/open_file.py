"""A file that stays open for as long as it is in use."""

import contextlib
import os
import threading
import weakref
from typing import Final

from strandline.io import Io, OpenMode


class OpenFile:
    """A descriptor that is closed when its last holder releases it.

    One thread may so continue to read a file that another has replaced: if its descriptor
    were closed, the number could soon belong to another file.
    A forked child keeps only those that are open for reading.
    """

    def __init__(self, io: Io, path: str, mode: OpenMode) -> None:
        self.path = path
        self._io = io
        self.fd: int
        if mode == "read":
            self._open(mode)
        else:
            with _forking:
                self._open(mode)
                _lockable.add(self)
        self.inode: Final = io.identity(self.fd)

    def _open(self, mode: OpenMode) -> None:
        self.fd = self._io.open(self.path, mode)
        self._close = weakref.finalize(self, _close, self._io, self.fd)
        # The end of the process closes it, too.
        self._close.atexit = False

    def is_in_place(self) -> bool:
        """Whether the path still leads to this same file."""
        try:
            return self._io.identity(self.path) == self.inode
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Close it now. For files that one thread uses."""
        self._close()


def _close(io: Io, fd: int) -> None:
    # Nothing is lost: whatever must be durable was synced, and closing releases a lock.
    with contextlib.suppress(OSError):
        io.close(fd)


#: Held while a file is opened, so that a forked child knows every file that it inherits.
_forking = threading.RLock()
_lockable: weakref.WeakSet[OpenFile] = weakref.WeakSet()


def _close_in_child() -> None:
    """Close what may be locked: a child would hold the lock beyond its parent's end."""
    _forking.release()
    for file in tuple(_lockable):
        file.close()


os.register_at_fork(
    before=_forking.acquire,
    after_in_parent=_forking.release,
    after_in_child=_close_in_child,
)
