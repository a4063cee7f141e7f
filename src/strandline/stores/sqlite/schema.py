"""The tables, and connections to them."""

import contextlib
import ctypes
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, overload
from urllib.parse import quote

from strandline.io import refusal_of
from strandline.stores.disk_reserve import is_full
from strandline.stores.file_errors import unavailable
from strandline.values import (
    CorruptError,
    FailedError,
    FullError,
    InvalidError,
    UnavailableError,
)

FORMAT_VERSION = 3
#: How long a connection waits while another one recovers the write-ahead log.
BUSY_S = 5.0

# A record's place is one number: its partition's slot, then its offset.
OFFSET_BITS = 38
SLOTS_MAX = 1 << (63 - OFFSET_BITS)

#: The file may only be read, or nothing may be created beside it.
_READ_ONLY = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_READONLY_CANTINIT,
    sqlite3.SQLITE_READONLY_DIRECTORY,
}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNREADABLE_TEXT = "Could not decode to UTF-8"
# Our statements are well-formed: if tables or rows do not fit them, these were damaged.
_DAMAGED = {
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT),
    *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
}

_PRAGMAS = (
    "wal_autocheckpoint = 0",
    "synchronous = NORMAL",
    "checkpoint_fullfsync = 1",
    "cell_size_check = 1",
    "trusted_schema = 0",
    # Content of a removed row must not stay in unused parts of pages, see design 0123.
    "secure_delete = 1",
)

# Tenants are never empty, so '' stands for none. Each `crc` covers its row. Row counts show
# that a row is missing: of topics in the log's row, of epochs and identities in the
# partition's. The names of keys are stored twice. See design 0072.
TABLES = (
    """CREATE TABLE IF NOT EXISTS strandline_log (
        one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,
        log_id BLOB NOT NULL, inode INTEGER NOT NULL, next_slot INTEGER NOT NULL,
        topics INTEGER NOT NULL, crc INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS strandline_topics (
        id BLOB PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,
        first_slot INTEGER NOT NULL, settings BLOB NOT NULL, created_at_us INTEGER NOT NULL,
        crc INTEGER NOT NULL, UNIQUE (tenant, name)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS strandline_partitions (
        slot INTEGER PRIMARY KEY, low INTEGER NOT NULL, high INTEGER NOT NULL,
        durable INTEGER NOT NULL, last_us INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
        keys_seen INTEGER NOT NULL, local INTEGER NOT NULL, epochs INTEGER NOT NULL,
        identities INTEGER NOT NULL, identities_sum INTEGER NOT NULL, crc INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS strandline_records (
        place INTEGER PRIMARY KEY, timestamp_us INTEGER NOT NULL, key TEXT, tenant TEXT,
        kind TEXT, value BLOB NOT NULL, headers BLOB, occurred_at_us INTEGER,
        size_bytes INTEGER NOT NULL, crc INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS strandline_epochs (
        slot INTEGER NOT NULL, number INTEGER NOT NULL, id BLOB NOT NULL,
        start INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (slot, number)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS strandline_keyed (
        first_slot INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        crc INTEGER NOT NULL, PRIMARY KEY (first_slot, key)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS strandline_keyed_names (
        first_slot INTEGER NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (first_slot, key)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS strandline_producers (
        slot INTEGER NOT NULL, tenant TEXT NOT NULL, producer TEXT NOT NULL,
        latest INTEGER NOT NULL, seen_at_us INTEGER NOT NULL, seen INTEGER NOT NULL,
        crc INTEGER NOT NULL, PRIMARY KEY (slot, tenant, producer)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS strandline_sequences (
        slot INTEGER NOT NULL, tenant TEXT NOT NULL, producer TEXT NOT NULL,
        sequence INTEGER NOT NULL, start INTEGER NOT NULL, timestamp_us INTEGER NOT NULL,
        ordinal INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (slot, tenant, producer, sequence)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS strandline_keys (
        slot INTEGER NOT NULL, tenant TEXT NOT NULL, key TEXT NOT NULL,
        start INTEGER NOT NULL, timestamp_us INTEGER NOT NULL, count INTEGER NOT NULL,
        ordinal INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (slot, tenant, key)) WITHOUT ROWID""",
)


Made = TypeVar("Made", bound=sqlite3.Connection)
"""The class of the connection."""


@overload
def connect(path: str, access: str, *, busy_s: float = ...) -> sqlite3.Connection: ...


@overload
def connect(path: str, access: str, *, busy_s: float = ..., kind: type[Made]) -> Made: ...


def connect(
    path: str, access: str, *, busy_s: float = BUSY_S, kind: type[Any] = sqlite3.Connection
) -> Any:
    """Return a connection that never checkpoints automatically; `access` is ro, rw or rwc.

    `access` may be followed by other parameters of SQLite's URIs. Only the thread that makes a
    connection of another `kind` may use it.
    """
    with translated(path):
        connection = sqlite3.connect(
            f"file:{quote(path)}?mode={access}",
            uri=True,
            timeout=busy_s,
            isolation_level=None,
            check_same_thread=kind is not sqlite3.Connection,
            cached_statements=256,
            factory=kind,
        )
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
        except BaseException as error:
            connection.close()
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE:
                # No space for the index of the write-ahead log, which the first connection creates.
                raise FullError(path, str(error)) from error
            raise
    return connection


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate errors that SQLite raises."""
    try:
        yield
    except sqlite3.Error as error:
        _raise_translated(path, error)
    except OSError as error:
        if is_full(error):
            raise FullError(error.filename or path, error.strerror or str(error)) from error
        raise FailedError(error) from error
    except UnicodeDecodeError as error:
        # SQLite's message is itself unreadable: it quotes what was damaged.
        raise _damaged(path, error) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds a lock, so that a retry may succeed."""
    return _primary_code(error) in _BUSY


def is_out_of_space(error: BaseException) -> bool:
    """Whether the disk is full: nothing of the transaction is stored then."""
    return isinstance(error, sqlite3.Error) and _primary_code(error) == sqlite3.SQLITE_FULL


def _primary_code(error: sqlite3.Error) -> int:
    # The low byte is the primary code; the rest is detail.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _damaged(path: str, error: Exception) -> CorruptError:
    is_none = isinstance(error, sqlite3.Error) and _primary_code(error) == sqlite3.SQLITE_NOTADB
    return CorruptError(
        "this file is not an SQLite database, check its path or restore it from a copy"
        if is_none
        else "the database is damaged, restore what cannot be read from a copy",
        file=path,
        position=0,
        reason=str(error),
    )


def _is_read_only(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) in _READ_ONLY


def _raise_translated(path: str, error: sqlite3.Error) -> NoReturn:
    code = _primary_code(error)
    if code in _DAMAGED or _UNREADABLE_TEXT in str(error):
        raise _damaged(path, error) from error
    if code == sqlite3.SQLITE_CANTOPEN:
        refusal = refusal_of(path)
        if refusal is not None:
            raise unavailable(refusal, path) from error
        raise InvalidError(
            "this database cannot be opened", path=path, reason=str(error)
        ) from error
    if _is_read_only(error):
        is_beside = error.sqlite_errorcode != sqlite3.SQLITE_READONLY
        refused = os.path.dirname(path) if is_beside else path
        refusal = OSError(errno.EACCES, str(error), refused)
        raise unavailable(refusal, path) from error
    if code == sqlite3.SQLITE_FULL:
        raise FullError(path, str(error)) from error
    if code in _BUSY:
        raise UnavailableError(
            "another process has locked the database, try again", path=path, reason=str(error)
        ) from error
    if isinstance(error, sqlite3.ProgrammingError) and not code:
        raise error
    raise FailedError(error) from error


def writable(connection: sqlite3.Connection, path: str) -> sqlite3.Connection:
    """Return the connection; UnavailableError if SQLite has opened the file for reading.

    It does so without a word where the file may not be written, begins transactions there as
    anywhere, and refuses their first write.
    """
    try:
        connection.execute("DELETE FROM strandline_topics WHERE FALSE")
    except sqlite3.Error as error:
        # What else is wrong comes again where it is in the way.
        if _is_read_only(error):
            close_connection(connection)
            _raise_translated(path, error)
    return connection


def close_connection(connection: sqlite3.Connection) -> None:
    """Roll back and close, in whatever state the connection is."""
    end_connection(connection)
    try:
        sqlite3.Connection.close(connection)
    except sqlite3.ProgrammingError:
        # A connection of another thread's block, whose end was interrupted.
        leak_connections([connection])


def end_connection(connection: sqlite3.Connection) -> None:
    """Roll back what it has begun."""
    # Even if it cannot be closed, it must not block other connections.
    with contextlib.suppress(sqlite3.Error):
        sqlite3.Connection.rollback(connection)


def leak_connections(connections: list[sqlite3.Connection]) -> None:
    """Keep these open until the process ends."""
    # Garbage collection closes a connection, and a close may checkpoint and remove the
    # write-ahead log. Only a reference that is never released prevents it.
    leak: Callable[[Any], None] = ctypes.pythonapi.Py_IncRef
    for connection in connections:
        leak(ctypes.py_object(connection))
