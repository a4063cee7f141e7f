"""The database file: one connection that writes, some that read, and syncs."""

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Final

from strandline.clock import Clock
from strandline.io import FileStatus, Io, may_write_in
from strandline.locks import Signal, holding
from strandline.log.open_state import OpenState
from strandline.stores.disk_reserve import RESERVE_BYTES, DiskReserve
from strandline.stores.sqlite.log_space import LogSpace
from strandline.stores.sqlite.logged_bytes import is_much, transaction_bytes
from strandline.stores.sqlite.partition_row import note_tails
from strandline.stores.sqlite.schema import (
    BUSY_S,
    Made,
    close_connection,
    connect,
    end_connection,
    is_busy,
    is_out_of_space,
    leak_connections,
    translated,
    writable,
)
from strandline.stores.sqlite.store_lock import StoreLock
from strandline.stores.sqlite.tables import (
    cannot_be_opened,
    check_is_file,
    create_tables,
    has_tables,
    read_log_id,
)
from strandline.values import (
    NO_LOG,
    FailedError,
    InvalidError,
    Mode,
    UnavailableError,
)

_RETRY_S = 0.000_5


class Database:
    """All access to the file. Thread-safe, except `writer`, which belongs to the lock's holder.

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
        check_is_file(io, path)
        self.mode = mode
        self.io = io
        self.clock = clock
        self.lock_timeout_s = lock_timeout_s
        self._mutex = threading.Lock()
        self._borrowed = 0
        #: Set when a lent connection is returned.
        self._returned = Signal()
        self._idle: list[sqlite3.Connection] = []
        self._all: list[sqlite3.Connection] = []
        #: Immutable connections, which notice no change, and the file's status when they were made.
        self._frozen: dict[sqlite3.Connection, FileStatus] = {}
        self._writer: sqlite3.Connection | None = None
        self._lent: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._wal_fd: int | None = None
        self.state: Final = OpenState()
        self.check_open: Final = self.state.check
        self._is_given_back = False
        #: Identifies the transaction that was begun last.
        self._begun: object | None = None
        #: How often this process has changed partitions without updating the cached heads.
        self.changes: int = 0
        #: Slots whose identities were verified to be complete. For the lock's holder.
        self.checked_identities: set[int] = set()
        #: Approximately how much this process has written since it last checkpointed.
        self.logged_bytes: int = 0
        #: Checkpoints, if nothing is in the way; called by the holder of `lock`.
        self.tidy: Callable[[], None] = lambda: None
        self.path = path
        self.lock: Final = StoreLock(io, clock, f"{path}-strandline.lock")
        self.reserve: Final = DiskReserve(io, f"{path}-strandline.reserve", self._reserve_bytes)
        self.log_space: Final = LogSpace(io, self.wal_path)
        self._access = access
        _instances.add(self)
        # Connections that were not closed are left to the operating system.
        weakref.finalize(self, leak_connections, self._all)
        try:
            self._open()
            with self.reading() as connection, self.translating():
                self.log_id: Final = read_log_id(connection, path)
        except OSError as error:
            self.close()
            raise cannot_be_opened(path, error) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self.mode is Mode.WRITE:
            self._create()
        elif not self.io.exists(self.path):
            raise InvalidError(NO_LOG, path=self.path)

    # --- reading ---

    @holding
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to one thread, for one short query; see `translating`."""
        connection: sqlite3.Connection | None = None
        is_borrowed = False
        try:
            with self._mutex:
                self.check_open()
                self._borrowed += 1
                is_borrowed = True
                connection = self._idle.pop() if self._idle else None
            if connection is not None and self._is_outdated(connection):
                self.close_writer(connection)
                connection = None
            if connection is None:
                connection = self.new_connection()
            yield connection
        finally:
            try:
                if connection is not None and connection.in_transaction:
                    connection.rollback()
            finally:
                with self._mutex:
                    self._borrowed -= is_borrowed
                    if connection is not None:
                        self._idle.append(connection)
                self._returned.set()

    def translating(self) -> contextlib.AbstractContextManager[None]:
        """Translate errors that SQLite raises in a block."""
        return translated(self.path)

    def new_connection(self) -> sqlite3.Connection:
        """Return a connection that reads, and that `close` will close."""
        if self._access is not None or self.mode is not Mode.READ:
            return self._connect(self._access or "rw")
        if not self._is_at_rest_for_good():
            return self._keep(connect(self.path, "ro"))
        status = self.io.stat(self.path)
        connection = self._keep(connect(self.path, "ro&immutable=1"))
        self._frozen[connection] = status
        return connection

    def _is_at_rest_for_good(self) -> bool:
        """Whether SQLite must read with `immutable`: it cannot create files beside the database.

        A writer, which must then be another user, creates a write-ahead log first.
        """
        directory = os.path.dirname(self.path)
        return not self.io.exists(self.wal_path) and not may_write_in(directory)

    def _is_outdated(self, connection: sqlite3.Connection) -> bool:
        """Whether an immutable connection is open to a file that has changed since."""
        seen = self._frozen.get(connection)
        if seen is None:
            return False
        return self.io.exists(self.wal_path) or self.io.stat(self.path) != seen

    def _connect(self, access: str) -> sqlite3.Connection:
        # The first connection makes the index of the write-ahead log, also on a full disk.
        return self._keep(self.reserve.spend(lambda: connect(self.path, access)))

    def _keep(self, connection: Made) -> Made:
        with self._mutex:
            self._all.append(connection)
        return connection

    def new_writer(self, kind: type[Made]) -> Made:
        """Return a connection of this kind for one block, to be closed with `close_writer`."""
        self.check_open()
        return self._keep(connect(self.path, "rw", busy_s=0, kind=kind))

    def close_writer(self, connection: sqlite3.Connection) -> None:
        """Close an outdated connection, or one from `new_writer`; never the last that writes."""
        with self._mutex:
            self._frozen.pop(connection, None)
            if connection in self._all:
                self._all.remove(connection)
                connection.close()

    # --- writing ---

    @property
    def writer(self) -> sqlite3.Connection:
        """The one connection that writes. The caller holds `lock`."""
        if self._lent is not None:
            return self._lent
        if self._writer is None:
            self.check_open()
            # Waiting is done outside SQLite, so that each thread keeps its own deadline.
            self._writer = self._keep(writable(connect(self.path, "rw", busy_s=0), self.path))
        return self._writer

    @property
    def cursor(self) -> sqlite3.Cursor:
        """A cursor of `writer`; cached if the writer is our own. The caller holds `lock`."""
        if self._lent is not None:
            return self._lent.cursor()
        if self._cursor is None:
            self._cursor = self.writer.cursor()
        return self._cursor

    def lend(self, connection: sqlite3.Connection | None) -> None:
        """Write through this connection until `take_back`. The caller holds `lock`."""
        self._lent = connection

    def has_lent(self, connection: sqlite3.Connection) -> bool:
        """Whether this is the lent connection, whose user holds `lock`."""
        return self._lent is connection

    def take_back(self) -> None:
        """Write through our own connection again. The caller holds `lock`."""
        self._lent = None

    def begin(self, timeout_s: float) -> None:
        """Begin to write. The caller holds `lock`, but another program may be writing, too."""
        deadline = self.clock.monotonic() + timeout_s
        while True:
            while not self.try_begin():
                if self.clock.monotonic() >= deadline:
                    raise UnavailableError(
                        "another process is writing to the database, try again", path=self.path
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
            # A process that has the current file open would not see what we write to the old one.
            self.lock.renew(deadline)

    def try_begin(self) -> bool:
        """Begin to write, unless another program is writing. The caller holds `lock`."""
        try:
            self.cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            return False
        return True

    @property
    def is_in_transaction(self) -> bool:
        """Whether the writer is in a transaction. The caller holds `lock`."""
        writer = self._lent or self._writer
        try:
            return writer is not None and writer.in_transaction
        except sqlite3.ProgrammingError:
            # A connection that its owner has closed is in no transaction.
            return False

    @holding
    def locked(self, timeout_s: float | None = None) -> Iterator[None]:
        """Hold `lock` for a block, unless the store is closed."""
        self.check_open()
        with self._held(self.lock_timeout_s if timeout_s is None else timeout_s):
            self.check_open()
            try:
                yield
            finally:
                try:
                    self._end_transaction()
                except BaseException:
                    self._end_transaction()
                    raise

    @holding
    def _held(self, timeout_s: float) -> Iterator[None]:
        try:
            with self.lock.held(timeout_s):
                yield
        except OSError as error:
            raise FailedError(error) from error

    def _end_transaction(self) -> None:
        # Only an interrupt leaves a transaction open.
        self._begun = None
        if self.is_in_transaction:
            self.writer.rollback()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Lend the writer to the holder of `lock`; commits unless the block raises."""
        begun = self._begun = object()
        try:
            self.begin(self.lock_timeout_s)
            yield self.writer
            self.writer.execute("COMMIT")
        finally:
            # If the end of the block was interrupted, another thread may be writing by now.
            if self._begun is begun and self.is_in_transaction:
                self.writer.rollback()

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writer for one transaction that may change anything, inside `locked`."""
        with translated(self.path):
            self.changes += 1
            with self.transaction() as connection:
                before = connection.total_changes
                yield connection
            self.logged_bytes += transaction_bytes(connection.total_changes - before)
        if is_much(self.logged_bytes):
            self.tidy()

    # --- durability ---

    @property
    def wal_path(self) -> str:
        """The path of the write-ahead log."""
        return f"{self.path}-wal"

    def sync(self) -> None:
        """Make durable what any process has written so far."""
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
        """Return a descriptor of the current write-ahead log; None if there is none."""
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
        # Used only to read and sync, so closing loses nothing.
        with contextlib.suppress(OSError):
            self.io.close(fd)

    def _rewrite(self) -> None:
        """Checkpoint what a failed sync may have lost: the kernel reports the failure only once."""
        if self.mode is Mode.READ:
            raise UnavailableError("a sync has failed, open the log for writing to repair it")
        with self.lock.held(self.lock_timeout_s):
            if not self.checkpoint("TRUNCATE"):
                raise UnavailableError("a sync has failed and readers block the repair, try again")
            self.lock.clear_suspicion()

    def checkpoint(self, kind: str, busy_timeout_s: float = BUSY_S) -> bool:
        """Move what was written into the database; False if readers were in the way.

        Waits for readers for `busy_timeout_s`, unless it is PASSIVE.

        The caller holds `lock`. What was moved is durable, and the partitions' rows count all
        of it: in the database itself nothing else shows that a record is missing.
        """
        with self.transaction() as connection:
            note_tails(connection, self.path)
        self.logged_bytes = 0
        self.log_space.begin_again()
        deadline = self.clock.monotonic() + busy_timeout_s
        while True:
            try:
                busy, logged, moved = self.writer.execute(
                    f"PRAGMA wal_checkpoint({kind})"
                ).fetchone()
            except sqlite3.OperationalError as error:
                # On a full disk, what was not moved stays in the write-ahead log. After a failed
                # sync, what it should have covered may be lost silently.
                if not is_out_of_space(error):
                    self.lock.suspect()
                raise
            if not busy and logged == moved:
                return True
            if kind == "PASSIVE" or self.clock.monotonic() >= deadline:
                return False
            self.clock.wait(threading.Event(), _RETRY_S)

    def size_bytes(self) -> int:
        """Return what the database occupies, with the files beside it."""
        # By name: closing a descriptor of the file would drop SQLite's own locks.
        return sum(self._size(self.path + tail) for tail in ("", "-wal", "-shm"))

    def _size(self, path: str) -> int:
        try:
            return self.io.stat(path).size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise UnavailableError(
                "a file of this log cannot be looked at, try again", path=path, reason=str(error)
            ) from error

    def _reserve_bytes(self) -> int:
        """Return the space that a checkpoint of everything written needs, and a margin."""
        return RESERVE_BYTES + self._size(self.wal_path)

    def inode(self) -> int:
        """Return the file's inode."""
        return self.io.stat(self.path).inode

    # --- beginning and end ---

    def _create(self) -> None:
        if self.io.exists(self.path):
            self._idle.append(connection := self._connect("rw"))
            with translated(self.path):
                if has_tables(connection):
                    return
        with self.lock.held(self.lock_timeout_s):
            created = self._writer = self._keep(connect(self.path, "rwc"))
            with translated(self.path):
                create_tables(created, self.clock.new_id(), self.inode())
                created.execute("PRAGMA busy_timeout = 0")
        self.io.sync_directory(os.path.dirname(self.path) or ".")
        self.sync()

    def close(self) -> None:
        """Close the file. The last close moves everything into the database."""
        if self._is_given_back or self.state.is_inherited:
            return
        with self._mutex:
            self.state.close()
        self._wait_returned(BUSY_S)
        try:
            with self._closing():
                for connection in self._all:
                    close_connection(connection)
        except (UnavailableError, OSError):
            # Without the lock they stay open until the process ends. The writer may be in another
            # thread's transaction, which SQLite keeps atomic.
            for connection in self._all:
                if connection is not self._writer and connection is not self._lent:
                    end_connection(connection)
            leak_connections(self._all)
        self._all.clear()
        if self._wal_fd is not None:
            self._close_file(self._wal_fd)
            self._wal_fd = None
        self.lock.close()
        self._is_given_back = True

    def _wait_returned(self, timeout_s: float) -> None:
        """Return once no connection is lent, or the time is up."""
        deadline = self.clock.monotonic() + timeout_s
        while self._borrowed and self.clock.monotonic() < deadline:
            self.clock.wait(self._returned, _RETRY_S)
            self._returned.clear()

    def _closing(self) -> contextlib.AbstractContextManager[None]:
        # The last close checkpoints, which a read-only process cannot do.
        if self.mode is Mode.READ:
            return contextlib.nullcontext()
        return self.lock.held(self.lock_timeout_s)

    def disown(self) -> None:
        """Prevent a forked child from closing what belongs to its parent."""
        leak_connections(self._all)
        self.lock.disown()


_instances: weakref.WeakSet[Database] = weakref.WeakSet()


def _reset_in_child() -> None:
    for database in tuple(_instances):
        database.disown()


os.register_at_fork(after_in_child=_reset_in_child)
