"""A file system in memory that remembers what is not yet durable.

A `Disk` is an Io that keeps a journal of every change and every sync, and of the facts that
the workload noted in between. `crash_images` derives from the journal what a power loss may
leave.
"""

import errno
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, TypeAlias

from strandline.io import Buffer, FileStatus, OpenMode

ROOT = 1
_DEVICE = 7
#: No real descriptor is so high: code that bypasses its io gets EBADF.
_FIRST_FD = 1_000_000


class Write(NamedTuple):
    """Bytes put into a file."""

    inode: int
    offset: int
    content: bytes | memoryview


class Resize(NamedTuple):
    """A file made exactly `length` bytes long, or at least so long if `grow_only`."""

    inode: int
    length: int
    grow_only: bool


class Sync(NamedTuple):
    """A file's content and length made durable."""

    inode: int


class Link(NamedTuple):
    """A name given to a file or directory, mostly a new one."""

    directory: int
    name: str
    inode: int
    is_directory: bool


class Unlink(NamedTuple):
    """A name removed."""

    directory: int
    name: str


class Move(NamedTuple):
    """A file renamed, in place of what had the new name."""

    source_directory: int
    source: str
    directory: int
    name: str
    inode: int


class SyncDirectory(NamedTuple):
    """The names in a directory made durable."""

    directory: int


class Noted(NamedTuple):
    """A fact that the workload knew from here on. No part of any image."""

    fact: object


ContentChange: TypeAlias = "Write | Resize"
NameChange: TypeAlias = "Link | Unlink | Move"
Entry: TypeAlias = "ContentChange | NameChange | Sync | SyncDirectory | Noted"


@dataclass(frozen=True, slots=True)
class Tree:
    """Files and directories by inode. Never changed."""

    files: Mapping[int, bytes] = field(default_factory=dict)
    directories: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: {ROOT: {}})


class _Descriptor(NamedTuple):
    inode: int
    may_write: bool


class Disk:
    """An Io in memory. What it holds at the beginning is durable.

    `boot` identifies a boot of the machine: it is the same after a kill, and another one after
    a power loss. `age` is the age of the disk that the tree was taken from.
    """

    def __init__(self, tree: Tree | None = None, *, boot: int = 0, age: int = 0) -> None:
        self.tree = tree if tree is not None else Tree()
        self.boot = boot
        self._age = age
        self.journal: list[Entry] = []
        self._lock = threading.RLock()
        # Content is shared with the tree until it is first written to.
        self._files: dict[int, bytes | bytearray] = dict(self.tree.files)
        self._directories = {inode: dict(names) for inode, names in self.tree.directories.items()}
        self._inode = max([ROOT, *self._files, *self._directories])
        self._fd = _FIRST_FD
        self._open: dict[int, _Descriptor] = {}
        self._locks: dict[int, int] = {}
        #: What paths lead to, until a name changes.
        self._found: dict[str, int | None] = {}

    @property
    def age(self) -> int:
        """How many entries the journal has, plus those of earlier processes."""
        return self._age + len(self.journal)

    def note(self, fact: object) -> None:
        """Add a fact to the journal that the workload knows from now on."""
        with self._lock:
            self.journal.append(Noted(fact))

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
            inode = self._find(path)
            if inode is None:
                directory, name = self._parent(path)
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

    def pwritev(self, fd: int, pieces: Sequence[Buffer], offset: int, /) -> None:
        """See Io."""
        self.pwrite(fd, b"".join(pieces), offset)

    def uncache(self, fd: int, length: int, offset: int, /) -> None:
        """See Io."""

    def preallocate(self, fd: int, length: int, /) -> bool:
        """See Io. Only the length changes; no space is reserved."""
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
            self._found.clear()
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
            self._found.clear()
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
            inode = self._inode_of(target)
            size = len(self._files.get(inode, b""))
            is_directory = inode in self._directories
            return FileStatus(_DEVICE, inode, size, is_directory, is_link=False, changed_ns=0)

    def identity(self, target: str | int, /) -> tuple[int, int]:
        """See Io."""
        with self._lock:
            return _DEVICE, self._inode_of(target)

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
        """Raise ENOSYS: there are no notices here, and watchers have to poll."""
        _fail(errno.ENOSYS, "file_watcher")

    def _link(self, directory: int, name: str, *, is_directory: bool) -> int:
        self._inode += 1
        inode = self._inode
        self._directories[directory][name] = inode
        self._found.clear()
        if is_directory:
            self._directories[inode] = {}
        else:
            self._files[inode] = b""
        self.journal.append(Link(directory, name, inode, is_directory))
        return inode

    def _unlink(self, directory: int, name: str) -> None:
        del self._directories[directory][name]
        self._found.clear()
        self.journal.append(Unlink(directory, name))

    def _inode_of(self, target: str | int) -> int:
        inode = self._described(target).inode if isinstance(target, int) else self._find(target)
        if inode is None:
            _fail(errno.ENOENT, str(target))
        return inode

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
        found = self._found.get(path, 0)
        if found == 0:
            folder, _, name = path.rstrip("/").rpartition("/")
            found = self._find(folder) if name else ROOT
            if found is not None and name not in ("", "."):
                found = self._directories.get(found, {}).get(name)
            self._found[path] = found
        return found

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
    """Give the file its new name; remove the old one if it still refers to that file."""
    names = directories[change.source_directory]
    if names.get(change.source) == change.inode:
        del names[change.source]
    directories[change.directory][change.name] = change.inode


def _fail(code: int, path: str) -> NoReturn:
    raise OSError(code, os.strerror(code), path)
