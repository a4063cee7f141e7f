"""Bare inotify, by ctypes: the cheapest notification of another process's write."""

import ctypes
import os
from pathlib import Path

IN_MODIFY = 0x2
#: More than one event of one watch, which has no name, can take up.
EVENTS_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Waits for writes to one file."""

    def __init__(self, path: Path) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_CLOEXEC))
        _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), IN_MODIFY))

    def wait(self) -> None:
        """Return once something was written since the last time."""
        os.read(self._fd, EVENTS_BYTES)

    def close(self) -> None:
        """End it."""
        os.close(self._fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
