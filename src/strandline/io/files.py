"""Files of the operating system."""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import resource
import stat as stat_bits
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from strandline._core import IS_COMPILED
from strandline.io.file_watcher import FileWatcher

if IS_COMPILED:
    from strandline._core.core import start_writeback

OpenMode = Literal["read", "write", "create", "create_new"]
"""Read an existing file; read and write an existing one; the same, making it if it
is missing; make it, and fail if it exists."""

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The identity of a file (device and inode: equal only for the same file), and its size."""

    device: int
    inode: int
    size: int
    is_directory: bool
    is_link: bool
    #: When the file was last changed in any way, in nanoseconds: a copy has another value,
    #: even if it got a reused inode number.
    changed_ns: int


class Io(Protocol):
    """The file system calls of a file log.

    If the last part of a path is a symbolic link, it is not followed but refused with an
    OSError: it may have been planted in a data directory. All methods may be called
    from any thread.
    """

    def open(self, path: str, mode: OpenMode, /) -> int:
        """Return a descriptor that child programs do not inherit."""

    def close(self, fd: int, /) -> None:
        """Close the descriptor; it is closed even when this raises."""

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """Return `length` bytes at `offset`; fewer only at the end of the file."""

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> None:
        """Write all of `data` at `offset`; if this raises, any part may have been written."""

    def pwritev(self, fd: int, pieces: Sequence[Buffer], offset: int, /) -> None:
        """Write these pieces one after the other, as `pwrite` writes one."""

    def uncache(self, fd: int, length: int, offset: int, /) -> None:
        """Allow the system to drop `length` bytes at `offset` from its page cache.

        A hint, for durable data that is not read again; it affects only the cache.
        """

    def preallocate(self, fd: int, length: int, /) -> bool:
        """Make the file at least `length` bytes long, zeros at the end.

        Return whether the file system has reserved the space, so that writes below `length`
        need no more.
        """

    def truncate(self, fd: int, length: int, /) -> None:
        """Make the file exactly `length` bytes long."""

    def size(self, fd: int, /) -> int:
        """Return the length of the file in bytes."""

    def sync(self, fd: int, /) -> None:
        """Return once the content and length of the file survive power loss.

        Never repeat it after an error: the second call may succeed although
        the data is lost.
        """

    def sync_directory(self, path: str, /) -> None:
        """Return once the names in the directory survive power loss."""

    def replace(self, source: str, target: str, /) -> None:
        """Rename `source` to `target`, atomically, and replace an existing file."""

    def link(self, source: str, target: str, /) -> None:
        """Give the file `source` a second name; an OSError if `target` is there.

        Not every file system can, and none across two of them.
        """

    def unlink(self, path: str, /) -> None:
        """Remove a file's name."""

    def mkdir(self, path: str, /) -> None:
        """Make one directory; its parent must exist, and the directory must not."""

    def rmdir(self, path: str, /) -> None:
        """Remove an empty directory."""

    def list(self, path: str, /) -> "list[str]":
        """Return the names in a directory, sorted."""

    def exists(self, path: str, /) -> bool:
        """Return whether the name exists, also as a dangling link."""

    def stat(self, target: str | int, /) -> FileStatus:
        """Return the status of a path or of a descriptor."""

    def identity(self, target: str | int, /) -> tuple[int, int]:
        """Return the device and inode of `stat`, at lower cost."""

    def try_lock(self, fd: int, /) -> bool:
        """Take the exclusive lock on the file, or return False if another has it.

        The lock excludes every other open file description of the file, also in this process,
        is shared with children of a fork, and ends when all of them have closed the file.
        """

    def unlock(self, fd: int, /) -> None:
        """Release the lock."""

    def file_watcher(self) -> FileWatcher:
        """Return a watcher of files; the caller closes it."""

    def boot_id(self) -> bytes:
        """Return 8 bytes that are the same for as long as the machine is up.

        While they stay the same, written data can be read, whether it was synced or not.
        Raises OSError if the system does not provide them.
        """


_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT,
    "create_new": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_CANNOT_ALLOCATE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
#: For a write of this size, writeback is started at once (design 0134).
_WRITEBACK_BYTES = 3 << 20
#: For smaller writes, writeback is started after each such step of the file.
_SMALL_BYTES = 1 << 20
_STEP_BYTES = 4 << 20
#: How many pieces one call of the system takes.
_PIECES_MAX = 1024
#: A process that has fewer descriptors than this is far from any limit.
_DESCRIPTORS_MIN = 64
_BOOT_ID_BYTES = 8
_BOOT_ID_TEXT_MAX = 64


class SystemIo:
    """The operating system's files. Most time is spent in the system call itself."""

    close: Final = staticmethod(os.close)
    pread: Final = staticmethod(os.pread)
    truncate: Final = staticmethod(os.ftruncate)
    unlink: Final = staticmethod(os.unlink)
    rmdir: Final = staticmethod(os.rmdir)
    replace: Final = staticmethod(os.replace)
    exists: Final = staticmethod(os.path.lexists)
    file_watcher: Final = staticmethod(FileWatcher)

    def __init__(self) -> None:
        self._boot_id: bytes | None = None

    if sys.platform == "darwin":

        def sync(self, fd: int, /) -> None:
            """See Io."""
            # A plain fsync there leaves the data in the drive's own cache.
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

        def preallocate(self, fd: int, length: int, /) -> bool:
            """See Io."""
            self._extend(fd, length)
            return False

        def uncache(self, fd: int, length: int, offset: int, /) -> None:
            """See Io."""

    else:
        sync: Final = staticmethod(os.fdatasync)

        def preallocate(self, fd: int, length: int, /) -> bool:
            """See Io."""
            try:
                os.posix_fallocate(fd, 0, length)
            except OSError as error:
                if error.errno not in _CANNOT_ALLOCATE:
                    raise
                self._extend(fd, length)
                return False
            return True

        def uncache(self, fd: int, length: int, offset: int, /) -> None:
            """See Io."""
            # Some file systems do not support it.
            with contextlib.suppress(OSError):
                os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)

    def open(self, path: str, mode: OpenMode, /) -> int:
        """See Io."""
        # Python itself adds O_CLOEXEC to every descriptor.
        fd = os.open(path, _FLAGS[mode] | os.O_NOFOLLOW, 0o666)
        if fd >= _DESCRIPTORS_MIN:
            _raise_limit(fd)
        return fd

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> None:
        """See Io."""
        written = os.pwrite(fd, data, offset)
        if written != len(data):
            rest = memoryview(data).cast("B")[written:]
            self._pwrite_rest(fd, rest, offset + written)
        if IS_COMPILED and offset % _STEP_BYTES + written >= _WRITEBACK_BYTES:
            _begin_writeback(fd, offset, len(data))

    def pwritev(self, fd: int, pieces: Sequence[Buffer], offset: int, /) -> None:
        """See Io."""
        for first in range(0, len(pieces), _PIECES_MAX):
            some = pieces[first : first + _PIECES_MAX]
            size, written = sum(map(len, some)), os.pwritev(fd, some, offset)
            if written != size:
                self._pwritev_rest(fd, some, offset, written)
            if IS_COMPILED:
                _begin_writeback(fd, offset, size)
            offset += size

    def size(self, fd: int, /) -> int:
        """See Io."""
        return os.fstat(fd).st_size

    def sync_directory(self, path: str, /) -> None:
        """See Io."""
        fd = os.open(path, _DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def link(self, source: str, target: str, /) -> None:
        """See Io."""
        os.link(source, target, follow_symlinks=False)

    def mkdir(self, path: str, /) -> None:
        """See Io."""
        os.mkdir(path)

    def list(self, path: str, /) -> "list[str]":
        """See Io."""
        fd = os.open(path, _DIRECTORY)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def stat(self, target: str | int, /) -> FileStatus:
        """See Io."""
        found = os.fstat(target) if isinstance(target, int) else os.lstat(target)
        return FileStatus(
            found.st_dev,
            found.st_ino,
            found.st_size,
            stat_bits.S_ISDIR(found.st_mode),
            stat_bits.S_ISLNK(found.st_mode),
            found.st_ctime_ns,
        )

    def identity(self, target: str | int, /) -> tuple[int, int]:
        """See Io."""
        found = os.fstat(target) if isinstance(target, int) else os.lstat(target)
        return found.st_dev, found.st_ino

    def try_lock(self, fd: int, /) -> bool:
        """See Io."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int, /) -> None:
        """See Io."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def boot_id(self) -> bytes:
        """See Io."""
        if self._boot_id is None:
            text = _boot_text().strip()
            if not text:
                raise OSError(errno.ENODATA, "the system has no boot id")
            self._boot_id = hashlib.blake2b(text, digest_size=_BOOT_ID_BYTES).digest()
        return self._boot_id

    def _pwritev_rest(self, fd: int, pieces: Sequence[Buffer], offset: int, written: int) -> None:
        for piece in pieces:
            done = min(written, len(piece))
            self._pwrite_rest(fd, memoryview(piece).cast("B")[done:], offset + done)
            written -= done
            offset += len(piece)

    def _pwrite_rest(self, fd: int, rest: memoryview, offset: int) -> None:
        while rest:
            written = os.pwrite(fd, rest, offset)
            if written == 0:
                raise OSError(errno.EIO, "the file accepts no more bytes")
            rest = rest[written:]
            offset += written

    def _extend(self, fd: int, length: int) -> None:
        if os.fstat(fd).st_size < length:
            os.ftruncate(fd, length)


def _begin_writeback(fd: int, offset: int, size: int) -> None:
    """Make the system begin to write to disk what was written, or the step that it ends."""
    if size >= _WRITEBACK_BYTES:
        # The disk writes while the next data is prepared, so that a later sync is short.
        start_writeback(fd, offset, size)
    elif size < _SMALL_BYTES:
        end, begun = offset + size, offset // _STEP_BYTES * _STEP_BYTES
        if end >= begun + _STEP_BYTES:
            start_writeback(fd, begun, end - begun)


def _raise_limit(fd: int) -> None:
    """Double the limit of open files if half of it is in use, up to what the system allows.

    A partition that is read keeps two files open, and one that is written four. With the
    usual limit of 1024, a log of some hundred partitions could not even be described, and the
    program itself could open no more files and sockets.
    """
    limit, limit_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or fd < limit // 2 or limit == limit_max:
        return
    raised = 2 * limit if limit_max == resource.RLIM_INFINITY else min(2 * limit, limit_max)
    # Refused if the system's real maximum is lower than reported: opening raises then.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, limit_max))


if sys.platform == "darwin":

    def _boot_text() -> bytes:
        # Not kern.boottime, which changes when the wall clock is set.
        libc = ctypes.CDLL(None, use_errno=True)
        text = ctypes.create_string_buffer(_BOOT_ID_TEXT_MAX)
        size = ctypes.c_size_t(len(text))
        if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return text.value

else:

    def _boot_text() -> bytes:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
        try:
            return os.read(fd, _BOOT_ID_TEXT_MAX)
        finally:
            os.close(fd)


def replace_file(
    io: Io, path: str, content: Buffer, *, unique: str, check: Callable[[], None] | None = None
) -> None:
    """Put `content` at `path`, atomically. As `place_file`, and durable when it returns.

    An error from syncing the directory leaves the new content in place, not yet durable.
    """
    place_file(io, path, content, unique=unique, check=check)
    io.sync_directory(os.path.dirname(path) or ".")


def place_file(
    io: Io, path: str, content: Buffer, *, unique: str, check: Callable[[], None] | None = None
) -> None:
    """Put `content` at `path`, atomically, to be made durable by `sync_directory`.

    `check` is called right before the renaming, and may raise. What it finds true of the
    directory is true of the directory that is changed, because the temporary file is in
    the same one.

    After a crash at any moment, `path` holds the old content or the new, whole.
    `unique` is text that no other call uses, such as a fresh id: it names the
    temporary file `<path>.<unique>.tmp`, which is removed on failure.
    """
    temporary = f"{path}.{unique}.tmp"
    fd = io.open(temporary, "create_new")
    try:
        try:
            io.pwrite(fd, content, 0)
            io.sync(fd)
        finally:
            io.close(fd)
        if check is not None:
            check()
        io.replace(temporary, path)
    except BaseException:
        # The first error is reported; a stray .tmp file may remain.
        with contextlib.suppress(OSError):
            io.unlink(temporary)
        raise
