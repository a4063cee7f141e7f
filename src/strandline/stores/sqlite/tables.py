"""Creates a log's tables in a database, and recognises existing ones."""

import sqlite3
from uuid import UUID

from strandline.io import Io
from strandline.stores.disk_reserve import is_full
from strandline.stores.file_errors import is_refused, unavailable
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.schema import FORMAT_VERSION, TABLES
from strandline.values import CorruptError, FullError, InvalidError, StrandlineError


def check_is_file(io: Io, path: str) -> None:
    """Raise InvalidError unless a database may be opened or created here."""
    try:
        status = io.stat(path) if io.exists(path) else None
    except OSError as error:
        raise cannot_be_opened(path, error) from error
    if status is not None and status.is_link:
        # SQLite names its write-ahead log after the real file.
        raise InvalidError(
            "a database behind a symbolic link is refused, open the file itself", path=path
        )
    if status is not None and status.is_directory:
        raise InvalidError("this is a folder, name the database in it", path=path)


def cannot_be_opened(path: str, error: OSError) -> StrandlineError:
    """Return the error for a file that the system refuses to open."""
    if is_full(error):
        return FullError(path, error.strerror or str(error))
    if isinstance(error, FileNotFoundError):
        return InvalidError(
            "the folder of this database is missing, create it first", path=path, reason=str(error)
        )
    if is_refused(error):
        return unavailable(error, path)
    return InvalidError("this database cannot be opened", path=path, reason=str(error))


def has_tables(connection: sqlite3.Connection) -> bool:
    """Return whether the database holds a log."""
    found = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'strandline_log'"
    ).fetchone()
    return bool(found[0])


def create_tables(connection: sqlite3.Connection, log_id: UUID, inode: int) -> None:
    """Create a log in the database, unless another process has done so."""
    connection.execute("PRAGMA journal_mode = WAL")
    row = (FORMAT_VERSION, log_id.bytes, inode, 0, 0)
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        connection.execute(table)
    connection.execute(
        "INSERT OR IGNORE INTO strandline_log VALUES (1, ?, ?, ?, ?, ?, ?)",
        (*row, row_crc("log", *row)),
    )
    connection.execute("COMMIT")


def read_log_id(connection: sqlite3.Connection, path: str) -> UUID:
    """Return the id of the log in the database."""
    if not has_tables(connection):
        raise InvalidError("this database holds no log, open it for writing", path=path)
    found = connection.execute("SELECT format FROM strandline_log").fetchone()
    if found is None:
        raise CorruptError("the log has lost its identity", file=path, position=1)
    if found[0] != FORMAT_VERSION:
        raise InvalidError(
            "this log was written by another version of strandline, open it with that one",
            format=found[0],
            format_known=FORMAT_VERSION,
        )
    row = connection.execute(
        "SELECT format, log_id, inode, next_slot, topics, crc FROM strandline_log"
    ).fetchone()
    check_row(path, "log", 1, row[:5], row[5])
    return UUID(bytes=row[1])
