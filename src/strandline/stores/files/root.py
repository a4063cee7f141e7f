"""The directory of a file log: its identity, its mode, and the lock for changing topics."""

import contextlib
import os
import threading
from collections.abc import Iterator
from uuid import UUID

import msgspec

from strandline.clock import Clock
from strandline.io import Io
from strandline.log.numbers import check_lock_timeout
from strandline.stores.files import checked
from strandline.stores.files.file_errors import unavailable
from strandline.stores.files.open_file import OpenFile
from strandline.values import ClosedError, InvalidError, Mode, UnavailableError

KIND = "log"
IDENTITY = "strandline"
TOPICS = "topics"
_LOCK = "lock"
_SLEEP_S = 0.001


class _Identity(msgspec.Struct, frozen=True):
    id: UUID


class Root:
    """A log's directory, open. Any thread may use it."""

    def __init__(self, path: str, mode: Mode, io: Io, clock: Clock, lock_timeout_s: float) -> None:
        self.path = path
        self.mode = mode
        self.io = io
        self.clock = clock
        self.lock_timeout_s = check_lock_timeout(lock_timeout_s)
        self.pid = os.getpid()
        self._is_closed = False
        self._changing = threading.Lock()
        try:
            if mode is Mode.WRITE:
                self._make()
            self.log_id = self._load_id()
        except OSError as error:
            raise unavailable(error, path) from error

    @property
    def topics(self) -> str:
        """The directory with one directory for each topic."""
        return os.path.join(self.path, TOPICS)

    def check_open(self) -> None:
        """Raise ClosedError if the log is closed, or belongs to the parent of a fork."""
        if self._is_closed:
            raise ClosedError("the log is closed, open it anew")
        if os.getpid() != self.pid:
            raise ClosedError("the log was opened before a fork, open it anew in the child process")

    def close(self) -> None:
        """Say that it is closed."""
        self._is_closed = True

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock under which topics are created and dropped."""
        with self._changing, locked(self.io, self.clock, self._lock_path, self.lock_timeout_s):
            yield

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
                "this directory holds something else, choose an empty or a new one",
                path=self.path,
                found=(strange or [TOPICS])[:3],
            )

    def _make_directories(self, path: str) -> None:
        if self.io.exists(path):
            status = self.io.stat(path)
            if not status.is_directory and not status.is_link:
                raise InvalidError("a file log is a directory, and this is none", path=path)
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
            raise InvalidError(
                "there is no log here, mode='write' or `strandline create` makes one",
                path=self.path,
            ) from error


@contextlib.contextmanager
def locked(io: Io, clock: Clock, path: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock on a file, which is made if it is missing; UnavailableError in time."""
    deadline = clock.monotonic() + timeout_s
    never = threading.Event()
    while True:
        file = OpenFile(io, path, "create")
        if io.try_lock(file.fd):
            if file.is_in_place():
                break
        elif clock.monotonic() >= deadline:
            file.close()
            raise UnavailableError("another process is changing the log, try again", path=path)
        else:
            clock.wait(never, _SLEEP_S)
        file.close()
    try:
        yield
    finally:
        # Closing lets go, too.
        with contextlib.suppress(OSError):
            io.unlock(file.fd)
        file.close()
