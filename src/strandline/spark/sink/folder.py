"""Where staged rows and recorded batches lie: a directory of the log's own, one part for each app.

A log `file:<path>` has them in `<path>/staging`, beside its topics; a log `sqlite:<path>`
in `<path>-staging`. See design 0051.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from typing import Final, TypeVar

import google_crc32c
import msgspec

from strandline.clock import Clock, SystemClock
from strandline.io import Buffer, Io, SystemIo, replace_file
from strandline.locks import holding
from strandline.values import CorruptError, InvalidError, UnavailableError

LOCK: Final = "lock"
NAME: Final = "name"
LOCK_TIMEOUT_S: Final = 300.0
FORMAT: Final = 1

_SLEEP_S: Final = 0.005
_HEAD: Final = b"strandline sink %d "
_DIGEST_BYTES: Final = 16
Body = TypeVar("Body", bound=msgspec.Struct)


class AppFolder:
    """What was staged and recorded under one app's id. Any number of processes use it."""

    def __init__(
        self, root: str, app: str, *, io: Io | None = None, clock: Clock | None = None
    ) -> None:
        self.app = app
        self.io: Final = io or SystemIo()
        self.clock: Final = clock or SystemClock()
        self._root = root
        digest = hashlib.blake2b(app.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        self.path: Final = os.path.join(root, digest)

    def make(self) -> None:
        """Make the directory, durably, if it is missing."""
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
                # Lets go of the lock, too.
                self.io.close(fd)

    def _is_in_place(self, fd: int) -> bool:
        try:
            return self.io.identity(self.path_of(LOCK)) == self.io.identity(fd)
        except FileNotFoundError:
            return False

    def store(self, name: str, body: msgspec.Struct) -> None:
        """Put `body` in place of a file, durably and whole."""
        content = msgspec.json.encode(body)
        self._replace(name, _first_line(FORMAT, content) + content)

    def load(self, name: str, shape: type[Body]) -> Body | None:
        """Return what was stored; None if nothing was, CorruptError if it is damaged."""
        try:
            stored = self.read(name)
        except FileNotFoundError:
            return None
        first, _, content = stored.partition(b"\n")
        number = first.rpartition(b" ")[0].rpartition(b" ")[2]
        if number.isdigit() and first + b"\n" == _first_line(int(number), content):
            if int(number) > FORMAT:
                raise InvalidError(
                    "a newer version of strandline has recorded this batch, upgrade to go on",
                    file=self.path_of(name),
                )
            try:
                return msgspec.json.decode(content, type=shape)
            except msgspec.MsgspecError:
                pass
        raise CorruptError("this record of a batch is damaged", file=self.path_of(name), position=0)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a part of a file, or all of it."""
        fd = self.io.open(self.path_of(name), "read")
        try:
            wanted = self.io.size(fd) - offset if length is None else length
            return self.io.pread(fd, wanted, offset)
        finally:
            self.io.close(fd)

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        with contextlib.suppress(FileNotFoundError):
            self.io.unlink(self.path_of(name))

    def remove_all(self) -> None:
        """Remove everything, of an app that never comes back. The lock is held."""
        for name in self.names():
            if name != LOCK:
                self.remove(name)
        self.remove(LOCK)
        # Another process may wait for the lock by now.
        with contextlib.suppress(OSError):
            self.io.rmdir(self.path)

    def _replace(self, name: str, content: Buffer) -> None:
        replace_file(self.io, self.path_of(name), content, unique=str(self.clock.new_id()))


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
            continue  # Just being made, or removed.
        finally:
            if fd is not None:
                files.close(fd)
        yield AppFolder(root, app, io=files, clock=clock)


def _first_line(version: int, content: bytes) -> bytes:
    head = _HEAD % version
    return b"%s%08x\n" % (head, google_crc32c.extend(google_crc32c.value(head), content))
