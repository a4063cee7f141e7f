"""The file: one connection that writes, some that read, and the sync of what was written."""

import contextlib
import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from strandline.clock import Clock
from strandline.io import Io
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.partition_row import note_tails
from strandline.stores.sqlite.schema import (
    BUSY_S,
    FORMAT_VERSION,
    TABLES,
    Made,
    connect,
    is_busy,
    translated,
)
from strandline.stores.sqlite.store_lock import StoreLock
from strandline.values import ClosedError, InvalidError, Mode, UnavailableError

#: Size of the write-ahead log at which it is moved into the database.
CHECKPOINT_BYTES = 16 * 1024 * 1024
_RETRY_S = 0.000_5


class Database:
    """Everything that touches the file. Thread-safe but for `writer`, which is the lock holder's.

    All writes, checkpoints and closes happen under `lock`. See design 0020.
    """

    def __init__(
        self,
        path: str,
        mode: Mode,
        io: Io,
        clock: Clock,
        lock_timeout_s: float,
        *,
        access: str | None = None,
    ) -> None:
        _check_is_file(io, path)
        self.mode = mode
        self.io = io
        self.clock = clock
        self.lock_timeout_s = lock_timeout_s
        self._mutex = threading.Condition()
        self._borrowed = 0
        self._idle: list[sqlite3.Connection] = []
        self._all: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._lent: sqlite3.Connection | None = None
        self._wal_fd: int | None = None
        self._is_closed = False
        #: How often this process has changed partitions past the heads it keeps in mind.
        self.changes = 0
        #: About how much this process has written since it last checkpointed.
        self.logged_bytes = 0
        self.pid = os.getpid()
        self.path = path
        self.lock = StoreLock(io, clock, f"{path}-strandline.lock")
        self._access = access or ("ro" if mode is Mode.READ else "rw")
        _alive.add(self)
        # What nobody has closed is left to the operating system.
        weakref.finalize(self, _leak, self._all)
        try:
            self._open()
            self.log_id = self._read_log_id()
        except OSError as error:
            self.close()
            raise _cannot_be_opened(path, error) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self.mode is Mode.WRITE:
            self._create()
        elif not self.io.exists(self.path):
            raise InvalidError(
                "there is no log here, mode='write' or `strandline create` makes one",
                path=self.path,
            )

    # --- reading ---

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to one thread, for one short look."""
        with self._mutex:
            self.check_open()
            self._borrowed += 1
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self.new_connection()
            with translated(self.path):
                yield connection
        finally:
            if connection is not None and connection.in_transaction:
                connection.rollback()
            with self._mutex:
                self._borrowed -= 1
                if connection is not None:
                    self._idle.append(connection)
                self._mutex.notify_all()

    def new_connection(self) -> sqlite3.Connection:
        """Return a connection that reads, and is closed with the others."""
        return self._keep(connect(self.path, self._access))

    def _keep(self, connection: Made) -> Made:
        with self._mutex:
            self._all.append(connection)
        return connection

    def new_writer(self, kind: type[Made]) -> Made:
        """Return a connection of this kind for one block, to be closed with `close_writer`."""
        self.check_open()
        return self._keep(connect(self.path, "rw", busy_s=0, kind=kind))

    def close_writer(self, connection: sqlite3.Connection) -> None:
        """Close what `new_writer` made. It is never the last that is open, and moves nothing."""
        with self._mutex:
            if connection in self._all:
                self._all.remove(connection)
                connection.close()

    def check_open(self) -> None:
        """Raise ClosedError if the file was given back, or belongs to a parent process."""
        if self._is_closed:
            raise ClosedError("this log was closed, open it anew")
        if os.getpid() != self.pid:
            raise ClosedError("the log was opened before a fork, open it anew in the child process")

    def _read_log_id(self) -> UUID:
        with self.reading() as connection:
            if not _has_tables(connection):
                raise InvalidError(
                    "this database holds no log, open it for writing", path=self.path
                )
            row = connection.execute(
                "SELECT format, log_id, inode, next_slot, crc FROM strandline_log"
            ).fetchone()
        if row[0] != FORMAT_VERSION:
            raise InvalidError(
                "this log was written by another version of strandline, upgrade to read it",
                format=row[0],
                format_known=FORMAT_VERSION,
            )
        check_row(self.path, "log", 1, row[:4], row[4])
        return UUID(bytes=row[1])

    # --- writing ---

    @property
    def writer(self) -> sqlite3.Connection:
        """The one connection that writes. The caller holds `lock`."""
        if self._lent is not None:
            return self._lent
        if self._writer is None:
            self.check_open()
            # Whoever waits does so by itself, in order to keep its own deadline.
            self._writer = self._keep(connect(self.path, "rw", busy_s=0))
        return self._writer

    def lend(self, connection: sqlite3.Connection | None) -> None:
        """Let this connection be the one that writes until `take_back`. The caller holds `lock`."""
        self._lent = connection

    def has_lent(self, connection: sqlite3.Connection) -> bool:
        """Whether this is the connection that writes: its user holds `lock`."""
        return self._lent is connection

    def take_back(self) -> None:
        """Write through our own connection again. The caller holds `lock`."""
        self._lent = None

    def begin(self, timeout_s: float) -> None:
        """Begin to write. The caller holds `lock`, but a stranger may be writing, too."""
        deadline = self.clock.monotonic() + timeout_s
        while True:
            while not self.try_begin():
                if self.clock.monotonic() >= deadline:
                    raise UnavailableError(
                        "somebody else is writing to the database, try again", path=self.path
                    )
                self.clock.wait(threading.Event(), _RETRY_S)
            is_excluding = False
            try:
                is_excluding = self.lock.is_current()
            finally:
                if not is_excluding:
                    self.writer.rollback()
            if is_excluding:
                return
            # Whoever holds the file that is there now would not learn that we have written.
            self.lock.renew(deadline)

    def try_begin(self) -> bool:
        """Begin to write, unless a stranger does. The caller holds `lock`."""
        try:
            self.writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            return False
        return True

    @property
    def is_in_transaction(self) -> bool:
        """Whether the writer has begun and not ended. The caller holds `lock`."""
        writer = self._lent or self._writer
        # One that its owner has closed is in none.
        with contextlib.suppress(sqlite3.ProgrammingError):
            return writer is not None and writer.in_transaction
        return False

    @contextlib.contextmanager
    def locked(self, timeout_s: float | None = None) -> Iterator[None]:
        """Hold `lock` for a block, unless the file was given back."""
        self.check_open()
        with self.lock.held(self.lock_timeout_s if timeout_s is None else timeout_s):
            self.check_open()
            yield

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Lend the writer to the holder of `lock`; committed unless the block raises."""
        self.begin(self.lock_timeout_s)
        try:
            yield self.writer
            self.writer.execute("COMMIT")
        finally:
            if self.writer.in_transaction:
                self.writer.rollback()

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writer for one transaction that may change anything."""
        with translated(self.path), self.locked():
            self.changes += 1
            with self.transaction() as connection:
                yield connection

    # --- durability ---

    @property
    def wal_path(self) -> str:
        """Where what was written last is."""
        return f"{self.path}-wal"

    def sync(self) -> None:
        """Make what any process has written so far survive a loss of power."""
        try:
            fd = self._open_wal()
            if fd is not None:
                self.io.sync(fd)
        except OSError:
            self.lock.suspect()
            raise
        if self.lock.is_suspected():
            self._rewrite()

    def _open_wal(self) -> int | None:
        """Return a descriptor of the present write-ahead log; None if there is none."""
        try:
            present = self.io.identity(self.wal_path)
        except FileNotFoundError:
            return None
        fd = self._wal_fd
        if fd is not None and self.io.identity(fd) == present:
            return fd
        self._wal_fd = self.io.open(self.wal_path, "read")
        if fd is not None:
            self._close_file(fd)
        return self._wal_fd

    def _close_file(self, fd: int) -> None:
        # Read and synced through only, and so nothing can be lost by it.
        with contextlib.suppress(OSError):
            self.io.close(fd)

    def _rewrite(self) -> None:
        """Move what a failed sync may not have stored: the kernel reports it only once."""
        if self.mode is Mode.READ:
            raise UnavailableError("a sync has failed, open the log for writing to mend it")
        with self.lock.held(self.lock_timeout_s):
            if not self.checkpoint("TRUNCATE"):
                raise UnavailableError("a sync has failed and readers are in the way of the repair")
            self.lock.clear_suspicion()

    def checkpoint(self, kind: str) -> bool:
        """Move what was written into the database; False if readers were in the way.

        The caller holds `lock`. What was moved is durable, and the partitions' rows tell
        of all of it: in the database itself nothing else shows that a record is missing.
        """
        with self.transaction() as connection:
            note_tails(connection, self.path)
        self.logged_bytes = 0
        deadline = self.clock.monotonic() + BUSY_S
        while True:
            try:
                busy, logged, moved = self.writer.execute(
                    f"PRAGMA wal_checkpoint({kind})"
                ).fetchone()
            except sqlite3.OperationalError:
                # Where a sync has failed, what it was for may be lost without a sign.
                self.lock.suspect()
                raise
            if not busy and logged == moved:
                return True
            if kind == "PASSIVE" or self.clock.monotonic() >= deadline:
                return False
            self.clock.wait(threading.Event(), _RETRY_S)

    def size_bytes(self) -> int:
        """Return what the database occupies, with the files beside it."""
        # By name: closing a descriptor of ours would drop SQLite's own locks.
        return sum(self._size(self.path + tail) for tail in ("", "-wal", "-shm"))

    def _size(self, path: str) -> int:
        try:
            return self.io.stat(path).size
        except FileNotFoundError:
            return 0

    def inode(self) -> int:
        """Return which file this is."""
        return self.io.stat(self.path).inode

    # --- beginning and end ---

    def _create(self) -> None:
        if self.io.exists(self.path):
            connection = connect(self.path, "rw")
            self._all.append(connection)
            self._idle.append(connection)
            with translated(self.path):
                if _has_tables(connection):
                    return
        with self.lock.held(self.lock_timeout_s):
            created = connect(self.path, "rwc")
            self._all.append(created)
            self._writer = created
            with translated(self.path):
                self._create_tables(created)
                created.execute("PRAGMA busy_timeout = 0")
        self.io.sync_directory(os.path.dirname(self.path) or ".")
        self.sync()

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        row = (FORMAT_VERSION, self.clock.new_id().bytes, self.inode(), 0)
        connection.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            connection.execute(table)
        connection.execute(
            "INSERT OR IGNORE INTO strandline_log VALUES (1, ?, ?, ?, ?, ?)",
            (*row, row_crc("log", *row)),
        )
        connection.execute("COMMIT")

    def close(self) -> None:
        """Give the file back. The last to leave moves everything into the database."""
        with self._mutex:
            if self._is_closed or os.getpid() != self.pid:
                return
            self._is_closed = True
            self._mutex.wait_for(lambda: self._borrowed == 0, BUSY_S)
        try:
            with self._closing():
                for connection in self._all:
                    _end(connection)
                    connection.close()
        except (UnavailableError, OSError):
            # Without the lock they stay open until the process ends. The writer may be
            # in the midst of another thread's change, which is whole or not at all.
            for connection in self._all:
                if connection is not self._writer and connection is not self._lent:
                    _end(connection)
            _leak(self._all)
        self._all.clear()
        if self._wal_fd is not None:
            self._close_file(self._wal_fd)
        self.lock.close()

    def _closing(self) -> contextlib.AbstractContextManager[None]:
        # The last close of all checkpoints, which one that only reads cannot.
        if self.mode is Mode.READ:
            return contextlib.nullcontext()
        return self.lock.held(self.lock_timeout_s)

    def disown(self) -> None:
        """Keep a forked child from closing what is its parent's."""
        _leak(self._all)
        self.lock.disown()


def _check_is_file(io: Io, path: str) -> None:
    try:
        status = io.stat(path) if io.exists(path) else None
    except OSError as error:
        raise _cannot_be_opened(path, error) from error
    if status is not None and status.is_link:
        # SQLite names its write-ahead log after the real file.
        raise InvalidError(
            "a database behind a symbolic link is refused, open the file itself", path=path
        )
    if status is not None and status.is_directory:
        raise InvalidError("this is a folder, name the database in it", path=path)


def _cannot_be_opened(path: str, error: OSError) -> InvalidError:
    return InvalidError("this database cannot be opened", path=path, reason=str(error))


def _has_tables(connection: sqlite3.Connection) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'strandline_log'"
    ).fetchone()
    return bool(found[0])


def _end(connection: sqlite3.Connection) -> None:
    # Also where it cannot be closed, it holds nobody up.
    with contextlib.suppress(sqlite3.Error):
        connection.rollback()


def _leak(connections: list[sqlite3.Connection]) -> None:
    # A connection that is collected is closed, and a close may checkpoint and remove
    # the write-ahead log. Only a reference that nobody counts down prevents it.
    forget: Callable[[Any], None] = ctypes.pythonapi.Py_IncRef
    for connection in connections:
        forget(ctypes.py_object(connection))


_alive: weakref.WeakSet[Database] = weakref.WeakSet()


def _tell_child() -> None:
    for database in tuple(_alive):
        database.disown()


os.register_at_fork(after_in_child=_tell_child)
