"""Staged rows and recorded batches in a directory of the log, with a folder for each app.

A log `file:<path>` has them in `<path>/staging`, beside its topics; a log `sqlite:<path>`
in `<path>-staging`. See design 0051.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from typing import Final

import msgspec

from strandline.clock import Clock, SystemClock
from strandline.io import Buffer, Io, SystemIo, replace_file
from strandline.locks import holding
from strandline.spark.sink.place import Body
from strandline.spark.sink.stored_body import decoded, encoded
from strandline.values import UnavailableError

LOCK: Final = "lock"
NAME: Final = "name"
LOCK_TIMEOUT_S: Final = 300.0

_SLEEP_S: Final = 0.005
_DIGEST_BYTES: Final = 16


def folder_name(app: str) -> str:
    """Return the name of the folder of an app, whose id may have any characters."""
    return hashlib.blake2b(app.encode(), digest_size=_DIGEST_BYTES).hexdigest()


class AppFolder:
    """Implements StagingFolder in a directory on a disk of the log's machine."""

    is_exclusive: Final = True

    def __init__(
        self, root: str, app: str, *, io: Io | None = None, clock: Clock | None = None
    ) -> None:
        self.app = app
        self.io: Final = io or SystemIo()
        self.clock: Final = clock or SystemClock()
        self._root = root
        self.path: Final = os.path.join(root, folder_name(app))

    def make(self) -> None:
        """Create the directory, durably, if it is missing."""
        if self.io.exists(self.path_of(NAME)):
            return
        for path in (self._root, self.path):
            if not self.io.exists(path):
                with contextlib.suppress(FileExistsError):
                    self.io.mkdir(path)
            self.io.sync_directory(os.path.dirname(path))
        self._replace(NAME, self.app.encode())

    def exists(self) -> bool:
        """Whether anything was ever staged here."""
        return self.io.exists(self.path)

    def path_of(self, name: str) -> str:
        """Return where a file of this name is."""
        return os.path.join(self.path, name)

    def path_for_store(self, name: str) -> str | None:
        """Return where a file of this name is."""
        return self.path_of(name)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return self.io.list(self.path)

    @holding
    def locked(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the lock to record, roll forward or sweep; UnavailableError after a while."""
        deadline = self.clock.monotonic() + timeout_s
        never = threading.Event()
        fd: int | None = None
        try:
            while True:
                fd = self.io.open(self.path_of(LOCK), "create")
                if self.io.try_lock(fd):
                    if self._is_in_place(fd):
                        break
                elif self.clock.monotonic() >= deadline:
                    raise UnavailableError(
                        "another process commits a batch of this app", app=self.app
                    )
                else:
                    self.clock.wait(never, _SLEEP_S)
                closed, fd = fd, None
                self.io.close(closed)
            yield
        finally:
            if fd is not None:
                # Releases the lock, too.
                self.io.close(fd)

    def _is_in_place(self, fd: int) -> bool:
        try:
            return self.io.identity(self.path_of(LOCK)) == self.io.identity(fd)
        except FileNotFoundError:
            return False

    def new_file(self, name: str) -> "_DiskFile":
        """Return a file to be filled."""
        self.make()
        return _DiskFile(self, name)

    def store(self, name: str, body: msgspec.Struct) -> None:
        """Replace a file by `body`, durably and atomically."""
        self._replace(name, encoded(body))

    def store_new(self, name: str, body: msgspec.Struct) -> bool:
        """As `store`, unless there is such a file; False then. The lock is held."""
        if self.io.exists(self.path_of(name)):
            return False
        self.store(name, body)
        return True

    def load(self, name: str, shape: type[Body]) -> Body | None:
        """Return what was stored; None if nothing was, CorruptError if it is damaged."""
        try:
            return decoded(self.read(name), shape, self.path_of(name))
        except FileNotFoundError:
            return None

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a part of a file, or all of it."""
        fd = self.io.open(self.path_of(name), "read")
        try:
            wanted = self.io.size(fd) - offset if length is None else length
            return self.io.pread(fd, wanted, offset)
        finally:
            self.io.close(fd)

    def read_last(self, name: str, offset: int, length: int) -> bytes:
        """As `read`; the part is dropped from the page cache afterwards."""
        fd = self.io.open(self.path_of(name), "read")
        try:
            content = self.io.pread(fd, length, offset)
            self.io.uncache(fd, length, offset)
            return content
        finally:
            self.io.close(fd)

    def extend(self, name: str, before: bytes, added: bytes) -> None:
        """Append `added`, durably, to a file whose content is `before`."""
        is_new = not before and not self.io.exists(self.path_of(name))
        fd = self.io.open(self.path_of(name), "create")
        try:
            self.io.pwrite(fd, added, len(before))
            self.io.sync(fd)
        finally:
            self.io.close(fd)
        if is_new:
            self.io.sync_directory(self.path)

    def age_s(self, name: str) -> float:
        """Return how long ago the file was last changed; 0 if there is none."""
        try:
            changed_ns = self.io.stat(self.path_of(name)).changed_ns
        except FileNotFoundError:
            return 0.0
        return self.clock.now_us() / 1e6 - changed_ns / 1e9

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        with contextlib.suppress(FileNotFoundError):
            self.io.unlink(self.path_of(name))

    def remove_all(self) -> None:
        """Remove everything of an app whose id is not used again. The lock is held."""
        for name in self.names():
            if name != LOCK:
                self.remove(name)
        self.remove(LOCK)
        # Another process that waits for the lock may have created its file again.
        with contextlib.suppress(OSError):
            self.io.rmdir(self.path)

    def _replace(self, name: str, content: Buffer) -> None:
        replace_file(self.io, self.path_of(name), content, unique=str(self.clock.new_id()))


class _DiskFile:
    """Implements StagedFile."""

    def __init__(self, folder: AppFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._fd: int | None = folder.io.open(folder.path_of(name), "create_new")
        self._size = 0

    def write(self, content: memoryview) -> None:
        assert self._fd is not None
        self._folder.io.pwrite(self._fd, content, self._size)
        self._size += len(content)

    def finish(self) -> None:
        assert self._fd is not None
        self._folder.io.sync(self._fd)
        self._close()
        self._folder.io.sync_directory(self._folder.path)

    def discard(self) -> None:
        self._folder.remove(self._name)
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self._folder.io.close(fd)


def app_folders(
    root: str, *, io: Io | None = None, clock: Clock | None = None
) -> Iterator[AppFolder]:
    """Yield the folder of each app that has one."""
    files = io or SystemIo()
    if not files.exists(root):
        return
    for name in files.list(root):
        fd = None
        try:
            fd = files.open(os.path.join(root, name, NAME), "read")
            app = files.pread(fd, files.size(fd), 0).decode()
        except (FileNotFoundError, NotADirectoryError):
            continue  # It is just being created or removed.
        finally:
            if fd is not None:
                files.close(fd)
        yield AppFolder(root, app, io=files, clock=clock)
