"""Linux's notifications of changed files."""

import ctypes
import errno
import os
import struct
from typing import Final

_MODIFY = 0x2
_ATTRIBUTES = 0x4
_MOVED_FROM = 0x40
_MOVED_TO = 0x80
_CREATE = 0x100
_DELETE = 0x200
_DELETE_SELF = 0x400
_MOVE_SELF = 0x800
_IGNORED = 0x8000
_OVERFLOW = 0x4000
_DONT_FOLLOW = 0x2000000

_CONTENT = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
# When an open file loses its name, only a change of attributes is reported.
_PLACE = _ATTRIBUTES | _DELETE_SELF | _MOVE_SELF
_MASK = _CONTENT | _PLACE | _DONT_FOLLOW

_EVENT = struct.Struct("iIII")
_READ_BYTES = 4096


Notice = tuple[int, bool]
"""One change: the number of the watch, and whether its path may refer to another file now."""


class Inotify:
    """One inotify instance. Raises OSError if the system cannot create one."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self.fd: Final = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, path: str) -> int:
        """Watch a path and return the number of the watch, which is the same for the same file."""
        return self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), _MASK), path)

    def remove(self, number: int) -> None:
        """End a watch; no error if it has already ended."""
        self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> list[Notice] | None:
        """Return the pending notifications, or None if some were lost. Does not wait."""
        try:
            content = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        notices = []
        at = 0
        while at < len(content):
            number, mask, _, name_bytes = _EVENT.unpack_from(content, at)
            if mask & _OVERFLOW:
                return None
            # For a file in a watched directory there is a name.
            notices.append((number, not name_bytes and bool(mask & (_PLACE | _IGNORED))))
            at += _EVENT.size + name_bytes
        return notices

    def close(self) -> None:
        """Close the instance."""
        os.close(self.fd)

    def _checked(self, result: int, path: str | None = None) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
        return result
