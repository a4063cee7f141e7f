"""Information of the system about directories and file systems."""

import errno
import functools
import os
import tempfile
from typing import NamedTuple

_MOUNTS = "/proc/self/mounts"
_INOTIFY = "/proc/sys/fs/inotify"
#: All have one copy of a page for all processes; network and user-space file systems may not.
_SHARED_MEMORY = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)

#: The path of a socket is limited to about a hundred bytes.
_SOCKET_PLACE_MAX = 60


class FileSystem(NamedTuple):
    """The file system of a path."""

    kind: str | None
    """Such as `ext4`; None if the system does not provide it."""
    free_bytes: int
    is_writable: bool


class InotifyLimits(NamedTuple):
    """The limits of watched files, for all processes of a user."""

    watches: int
    instances: int


def real_path(path: str) -> str:
    """Return the absolute path without a symbolic link in it.

    For paths given by a user. Links below it are not followed, see `Io`.
    """
    return os.path.realpath(path)


def real_parent(path: str) -> str:
    """Return the absolute path, in which only the last part may be a symbolic link."""
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(parent), name)


def may_write_in(directory: str) -> bool:
    """Whether this process may make files in a directory."""
    return os.access(directory, os.W_OK | os.X_OK)


def refusal_of(path: str) -> OSError | None:
    """Return the system's error if the process may not use a file, or create files beside it."""
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return _refusal(errno.EACCES, path)
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory) or may_write_in(directory):
        return None
    is_read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
    return _refusal(errno.EROFS if is_read_only else errno.EACCES, directory)


def _refusal(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def file_system_of(path: str) -> FileSystem:
    """Return information about the file system of `path`, or of its nearest existing parent."""
    there = os.path.realpath(path)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    found = os.statvfs(there)
    return FileSystem(_kind_of(there), found.f_bavail * found.f_frsize, os.access(there, os.W_OK))


def has_shared_memory(path: str) -> bool:
    """Whether memory maps of a file, and reads and writes of it, see the same content.

    True only for file systems for which this is known.
    """
    return _kind_by_device(os.stat(path).st_dev, path) in _SHARED_MEMORY


@functools.lru_cache
def _kind_by_device(_device: int, path: str) -> str | None:
    return _kind_of(path)


def inotify_limits() -> InotifyLimits | None:
    """Return the limits; None without inotify."""
    try:
        return InotifyLimits(
            int(_read(f"{_INOTIFY}/max_user_watches")), int(_read(f"{_INOTIFY}/max_user_instances"))
        )
    except OSError:
        return None


def _kind_of(path: str) -> str | None:
    try:
        lines = _read(_MOUNTS).splitlines()
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        _, mounted, found, *_ = line.split(" ")
        # The system writes spaces in names as \040.
        place = mounted.encode().decode("unicode_escape")
        is_above = path == place or path.startswith(place.rstrip("/") + "/")
        if is_above and len(place) >= len(best):
            best, kind = place, found
    return kind


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def private_directory() -> str:
    """Return a new directory of which only this user has access, short enough for socket paths."""
    place = tempfile.gettempdir()
    if len(place) > _SOCKET_PLACE_MAX:
        place = "/tmp"  # noqa: S108 - Only the parent of a directory with a name of its own.
    return tempfile.mkdtemp(prefix="strandline-", dir=place)
