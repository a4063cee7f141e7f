"""One record as a single-statement transaction, stored only if no other process has written."""

import sqlite3
from collections.abc import Callable
from typing import Any

from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.schema import is_busy

# For an event without a tenant: columns that are not bound cost nothing.
_INTO = (
    "INSERT INTO strandline_records"
    " (place, timestamp_us, key, kind, value, headers, occurred_at_us, size_bytes, crc)"
)
INSERT_EVENT = f"{_INTO} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# SQLite takes its write lock when the statement begins, and then evaluates the condition.
_INSERT_UNBROKEN = f"{_INTO} SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE strandline_unbroken()"


class LoneInsert:
    """Inserts and commits with one statement, which is faster than three.

    A function called by the statement checks, under SQLite's lock, that no other process has
    written since the append was decided. For the lock's holder, if the lock has a `look`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look: Callable[[], bool] | None = None
        self._cursor: sqlite3.Cursor

    def store(self, record: tuple[Any, ...]) -> bool:
        """Store a record; False, with nothing done, if another process writes or has written."""
        database = self._database
        look = database.lock.look
        if look is not self._look:
            database.writer.create_function("strandline_unbroken", 0, look)
            self._cursor, self._look = database.cursor, look
        cursor = self._cursor
        try:
            cursor.execute(_INSERT_UNBROKEN, record)
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        return cursor.rowcount == 1
