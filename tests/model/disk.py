"""A file system in memory that remembers what is not yet durable.

A `Disk` is an Io. Beside doing what it is asked, it keeps a journal of every change,
every sync, and of what the workload had been promised by then; `crash_images` makes of
the journal what a power loss may leave.
"""

import errno
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from strandline.io import Buffer, FileStatus, OpenMode

ROOT = 1
_DEVICE = 7
#: Far from real descriptors: code that goes past its io gets an error of the system.
_FIRST_FD = 1_000_000


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put into a file."""

    inode: int
    offset: int
    content: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Resize:
    """A file made exactly `length` bytes long, or at least so long if `grow_only`."""

    inode: int
    length: int
    grow_only: bool


@dataclass(frozen=True, slots=True)
class Sync:
    """A file's content and length made durable."""

    inode: int


@dataclass(frozen=True, slots=True)
class Link:
    """A name given to a file or directory, mostly a new one."""

    directory: int
    name: str
    inode: int
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name removed."""

    directory: int
    name: str


@dataclass(frozen=True, slots=True)
class Move:
    """A file renamed, in place of what had the new name."""

    source_directory: int
    source: str
    directory: int
    name: str
    inode: int


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    """The names in a directory made durable."""

    directory: int


@dataclass(frozen=True, slots=True)
class Told:
    """What the workload knew from here on: it takes part in no image."""

    fact: object


ContentChange: TypeAlias = "Write | Resize"
NameChange: TypeAlias = "Link | Unlink | Move"
Entry: TypeAlias = "ContentChange | NameChange | Sync | SyncDirectory | Told"


@dataclass(frozen=True, slots=True)
class Tree:
    """Files and directories by inode. Never changed."""

    files: Mapping[int, bytes] = field(default_factory=dict)
    directories: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: {ROOT: {}})


@dataclass(slots=True)
class _Descriptor:
    inode: int
    may_write: bool


class Disk:
    """An Io in memory. What it holds at the beginning is durable.

    `boot` stands for one start of the machine: it is the same after a kill, and
    another one after a power loss. `age` is that of the disk which the tree is from.
    """

    def __init__(self, tree: Tree | None = None, *, boot: int = 0, age: int = 0) -> None:
        self.tree = tree if tree is not None else Tree()
        self.boot = boot
        self._age = age
        self.journal: list[Entry] = []
        self._lock = threading.RLock()
        # A content is shared with the tree until it is written to.
        self._files: dict[int, bytes | bytearray] = dict(self.tree.files)
        self._directories = {inode: dict(names) for inode, names in self.tree.directories.items()}
        self._inode = max([ROOT, *self._files, *self._directories])
        self._fd = _FIRST_FD
        self._open: dict[int, _Descriptor] = {}
        self._locks: dict[int, int] = {}

    @property
    def age(self) -> int:
        """How many entries its journal has, and had before this start of the process."""
        return self._age + len(self.journal)

    def tell(self, fact: object) -> None:
        """Note in the journal what the workload knows from now on."""
        with self._lock:
            self.journal.append(Told(fact))

    def freeze(self) -> Tree:
        """Return everything as it is now, as if all of it were durable."""
        with self._lock:
            files = {inode: bytes(content) for inode, content in self._files.items()}
            directories = {inode: dict(names) for inode, names in self._directories.items()}
            return Tree(files, directories)

    def boot_id(self) -> bytes:
        """See Io."""
        return self.boot.to_bytes(8, "big")

    def open(self, path: str, mode: OpenMode, /) -> int:
        """See Io."""
        with self._lock:
            directory, name = self._parent(path)
            inode = self._directories[directory].get(name)
            if inode is None:
                if mode in ("read", "write"):
                    _fail(errno.ENOENT, path)
                inode = self._link(directory, name, is_directory=False)
            elif mode == "create_new":
                _fail(errno.EEXIST, path)
            elif inode in self._directories:
                _fail(errno.EISDIR, path)
            self._fd += 1
            self._open[self._fd] = _Descriptor(inode, mode != "read")
            return self._fd

    def close(self, fd: int, /) -> None:
        """See Io."""
        with self._lock:
            inode = self._described(fd).inode
            del self._open[fd]
            if self._locks.get(inode) == fd:
                del self._locks[inode]

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """See Io."""
        with self._lock:
            content = self._files[self._described(fd).inode]
            return bytes(content[offset : offset + length])

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> None:
        """See Io."""
        with self._lock:
            inode = self._writable(fd)
            written = bytes(data)
            put(self._own(inode), written, offset)
            self.journal.append(Write(inode, offset, written))

    def uncache(self, fd: int, length: int, offset: int, /) -> None:
        """See Io."""

    def preallocate(self, fd: int, length: int, /) -> bool:
        """See Io. Nothing is reserved: a write takes its space when it happens."""
        with self._lock:
            inode = self._writable(fd)
            content = self._own(inode)
            content.extend(bytes(max(0, length - len(content))))
            self.journal.append(Resize(inode, length, grow_only=True))
        return False

    def truncate(self, fd: int, length: int, /) -> None:
        """See Io."""
        with self._lock:
            inode = self._writable(fd)
            resize(self._own(inode), length)
            self.journal.append(Resize(inode, length, grow_only=False))

    def size(self, fd: int, /) -> int:
        """See Io."""
        with self._lock:
            return len(self._files[self._described(fd).inode])

    def sync(self, fd: int, /) -> None:
        """See Io."""
        with self._lock:
            self.journal.append(Sync(self._described(fd).inode))

    def sync_directory(self, path: str, /) -> None:
        """See Io."""
        with self._lock:
            self.journal.append(SyncDirectory(self._directory(path)))

    def replace(self, source: str, target: str, /) -> None:
        """See Io."""
        with self._lock:
            source_directory, old = self._parent(source)
            directory, new = self._parent(target)
            inode = self._directories[source_directory].get(old)
            if inode is None:
                _fail(errno.ENOENT, source)
            if self._directories[directory].get(new) in self._directories:
                _fail(errno.EISDIR, target)
            change = Move(source_directory, old, directory, new, inode)
            rename(self._directories, change)
            self.journal.append(change)

    def link(self, source: str, target: str, /) -> None:
        """See Io."""
        with self._lock:
            directory, name = self._parent(target)
            inode = self._find(source)
            if inode is None:
                _fail(errno.ENOENT, source)
            if name in self._directories[directory]:
                _fail(errno.EEXIST, target)
            self._directories[directory][name] = inode
            self.journal.append(Link(directory, name, inode, is_directory=False))

    def unlink(self, path: str, /) -> None:
        """See Io."""
        with self._lock:
            directory, name = self._parent(path)
            inode = self._directories[directory].get(name)
            if inode is None:
                _fail(errno.ENOENT, path)
            if inode in self._directories:
                _fail(errno.EISDIR, path)
            self._unlink(directory, name)

    def mkdir(self, path: str, /) -> None:
        """See Io."""
        with self._lock:
            directory, name = self._parent(path)
            if name in self._directories[directory] or not name:
                _fail(errno.EEXIST, path)
            self._link(directory, name, is_directory=True)

    def rmdir(self, path: str, /) -> None:
        """Remove an empty directory."""
        with self._lock:
            directory, name = self._parent(path)
            inode = self._directory(path)
            if self._directories[inode]:
                _fail(errno.ENOTEMPTY, path)
            self._unlink(directory, name)

    def list(self, path: str, /) -> "list[str]":
        """See Io."""
        with self._lock:
            return sorted(self._directories[self._directory(path)])

    def exists(self, path: str, /) -> bool:
        """See Io."""
        with self._lock:
            return self._find(path) is not None

    def stat(self, target: str | int, /) -> FileStatus:
        """See Io."""
        with self._lock:
            if isinstance(target, int):
                inode: int | None = self._described(target).inode
            else:
                inode = self._find(target)
            if inode is None:
                _fail(errno.ENOENT, str(target))
            size = len(self._files.get(inode, b""))
            is_directory = inode in self._directories
            return FileStatus(_DEVICE, inode, size, is_directory, is_link=False, changed_ns=0)

    def identity(self, target: str | int, /) -> tuple[int, int]:
        """See Io."""
        status = self.stat(target)
        return status.device, status.inode

    def try_lock(self, fd: int, /) -> bool:
        """See Io."""
        with self._lock:
            return self._locks.setdefault(self._described(fd).inode, fd) == fd

    def unlock(self, fd: int, /) -> None:
        """See Io."""
        with self._lock:
            inode = self._described(fd).inode
            if self._locks.get(inode) == fd:
                del self._locks[inode]

    def file_watcher(self) -> NoReturn:
        """Report that there are no notices here: watchers have to poll."""
        _fail(errno.ENOSYS, "file_watcher")

    def _link(self, directory: int, name: str, *, is_directory: bool) -> int:
        self._inode += 1
        inode = self._inode
        self._directories[directory][name] = inode
        if is_directory:
            self._directories[inode] = {}
        else:
            self._files[inode] = b""
        self.journal.append(Link(directory, name, inode, is_directory))
        return inode

    def _unlink(self, directory: int, name: str) -> None:
        del self._directories[directory][name]
        self.journal.append(Unlink(directory, name))

    def _described(self, fd: int) -> _Descriptor:
        described = self._open.get(fd)
        if described is None:
            _fail(errno.EBADF, f"fd {fd}")
        return described

    def _writable(self, fd: int) -> int:
        described = self._described(fd)
        if not described.may_write:
            _fail(errno.EBADF, f"fd {fd}")
        return described.inode

    def _own(self, inode: int) -> bytearray:
        content = self._files[inode]
        if isinstance(content, bytes):
            content = self._files[inode] = bytearray(content)
        return content

    def _find(self, path: str) -> int | None:
        inode = ROOT
        for part in _parts(path):
            names = self._directories.get(inode)
            if names is None or part not in names:
                return None
            inode = names[part]
        return inode

    def _directory(self, path: str) -> int:
        inode = self._find(path)
        if inode is None:
            _fail(errno.ENOENT, path)
        if inode not in self._directories:
            _fail(errno.ENOTDIR, path)
        return inode

    def _parent(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rstrip("/").rpartition("/")
        return self._directory(folder), name


def put(content: bytearray, written: bytes | memoryview, offset: int) -> None:
    """Write into `content`, with zeros before it where the file was shorter."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(written)] = written


def resize(content: bytearray, length: int) -> None:
    """Cut `content`, or fill it up with zeros."""
    if length < len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))


def rename(directories: dict[int, dict[str, int]], change: Move) -> None:
    """Give the file its new name; the old one goes if it still is that file's."""
    names = directories[change.source_directory]
    if names.get(change.source) == change.inode:
        del names[change.source]
    directories[change.directory][change.name] = change.inode


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _fail(code: int, path: str) -> NoReturn:
    raise OSError(code, os.strerror(code), path)
