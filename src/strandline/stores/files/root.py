"""The directory of a file log: its identity, its mode, and the lock for changing topics."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from strandline.clock import Clock
from strandline.io import Io
from strandline.locks import holding
from strandline.log.open_state import OpenState
from strandline.stores.disk_reserve import DiskReserve
from strandline.stores.file_errors import unavailable
from strandline.stores.files import checked
from strandline.stores.open_file import OpenFile
from strandline.values import NO_LOG, InvalidError, Mode, UnavailableError
from strandline.values.arguments import check_lock_timeout

KIND = "log"
IDENTITY = "strandline"
TOPICS = "topics"
_LOCK = "lock"
_DROPPED = "dropped."
RESERVE = "reserve"
_SLEEP_S = 0.001
#: The lock file's content while a topic is created or dropped; otherwise it has the last change.
_CHANGING = bytes(16)


class TopicsVersion(NamedTuple):
    """A version of the topics: equal only if none was created or dropped in between."""

    change: bytes
    inode: int
    changed_ns: int


class _Identity(msgspec.Struct, frozen=True):
    id: UUID


class Root:
    """A log's directory, open. Any thread may use it."""

    def __init__(self, path: str, mode: Mode, io: Io, clock: Clock, lock_timeout_s: float) -> None:
        self.path = path
        self.mode = mode
        self.io = io
        self.clock = clock
        self.lock_timeout_s: Final = check_lock_timeout(lock_timeout_s)
        self.state: Final = OpenState()
        self.check_open: Final = self.state.check
        self._changing = threading.Lock()
        self.reserve: Final = DiskReserve(io, os.path.join(path, RESERVE))
        try:
            if mode is Mode.WRITE:
                self._make()
            self.log_id: Final = self._load_id()
        except OSError as error:
            raise unavailable(error, path) from error

    @property
    def topics(self) -> str:
        """The directory with one directory for each topic."""
        return os.path.join(self.path, TOPICS)

    @holding
    def changing(self) -> Iterator[None]:
        """Hold the lock for creating and dropping topics."""
        with self._changing, locked(self.io, self.clock, self._lock_path, self.lock_timeout_s):
            yield

    @contextlib.contextmanager
    def changing_topics(self, change: bytes) -> Iterator[None]:
        """Mark that a topic is created or dropped; the caller holds the lock.

        `change` is 16 bytes unique to this change. A block that raises or is killed leaves
        the mark, and then every reader reads all topics.
        """
        self._mark(_CHANGING)
        yield
        self._mark(change)

    def topics_version(self) -> "TopicsVersion | None":
        """Return a value that changes whenever a topic is created or dropped.

        None while one is. Versions of strandline without the mark change the directory.
        """
        try:
            fd = self.io.open(self._lock_path, "read")
        except FileNotFoundError:
            return None
        try:
            change = self.io.pread(fd, len(_CHANGING), 0)
        finally:
            self.io.close(fd)
        if len(change) < len(_CHANGING) or change == _CHANGING:
            return None
        status = self.io.stat(self.topics)
        return TopicsVersion(change, status.inode, status.changed_ns)

    def move_dropped(self, directory: str) -> str:
        """Move a topic's directory away, atomically and durably; return its new path.

        Removing its files one by one would look like damage to a reader.
        """
        moved = os.path.join(self.path, _DROPPED + os.path.basename(directory))
        self.io.replace(directory, moved)
        self.io.sync_directory(self.topics)
        self.io.sync_directory(self.path)
        return moved

    def dropped(self) -> list[str]:
        """Return the directories of dropped topics that were not removed yet."""
        names = self.io.list(self.path)
        return [os.path.join(self.path, each) for each in names if each.startswith(_DROPPED)]

    def _mark(self, change: bytes) -> None:
        fd = self.io.open(self._lock_path, "create")
        try:
            self.io.pwrite(fd, change, 0)
        finally:
            self.io.close(fd)

    @property
    def _lock_path(self) -> str:
        return os.path.join(self.path, _LOCK)

    def _make(self) -> None:
        self._make_directories(self.path)
        if not self.io.exists(self.topics) or not self.io.exists(self._identity_path):
            with self.changing():
                self._make_directories(self.topics)
                if not self.io.exists(self._identity_path):
                    self._check_empty()
                    identity = _Identity(self.clock.new_id())
                    checked.store(
                        *(self.io, self._identity_path, KIND, identity),
                        unique=str(self.clock.new_id()),
                    )

    def _check_empty(self) -> None:
        own = {TOPICS, _LOCK}
        strange = [
            name
            for name in self.io.list(self.path)
            if name not in own and not name.startswith(f"{IDENTITY}.")
        ]
        if strange or self.io.list(self.topics):
            raise InvalidError(
                "this directory holds other files, choose an empty or a new one",
                path=self.path,
                found=(strange or [TOPICS])[:3],
            )

    def _make_directories(self, path: str) -> None:
        if self.io.exists(path):
            status = self.io.stat(path)
            if not status.is_directory and not status.is_link:
                raise InvalidError("a file log is a directory, but this path is a file", path=path)
            return
        parent = os.path.dirname(path)
        self._make_directories(parent)
        with contextlib.suppress(FileExistsError):
            self.io.mkdir(path)
        self.io.sync_directory(parent)

    @property
    def _identity_path(self) -> str:
        return os.path.join(self.path, IDENTITY)

    def _load_id(self) -> UUID:
        try:
            return checked.load(self.io, self._identity_path, KIND, _Identity).id
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InvalidError(NO_LOG, path=self.path) from error


@holding
def locked(io: Io, clock: Clock, path: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock on a file, created if missing; UnavailableError when the time is up."""
    deadline = clock.monotonic() + timeout_s
    never = threading.Event()
    file: OpenFile | None = None
    try:
        while True:
            file = OpenFile(io, path, "create")
            if io.try_lock(file.fd):
                if file.is_in_place():
                    break
            elif clock.monotonic() >= deadline:
                raise UnavailableError("another process is changing the log, try again", path=path)
            else:
                clock.wait(never, _SLEEP_S)
            file.close()
            file = None
        yield
    finally:
        if file is not None:
            try:
                _unlock(io, file)
            except BaseException:
                _unlock(io, file)
                raise


def _unlock(io: Io, file: OpenFile) -> None:
    # Closing releases it, too, but an interrupt may prevent the close.
    with contextlib.suppress(OSError):
        io.unlock(file.fd)
    file.close()
