"""One record as a transaction of one statement, stored only where no other process has written."""

import sqlite3
from collections.abc import Callable
from typing import Any

from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.schema import is_busy

# Of an event without a tenant: what is not bound costs nothing.
_INTO = (
    "INSERT INTO strandline_records"
    " (place, timestamp_us, key, kind, value, headers, occurred_at_us, size_bytes, crc)"
)
INSERT_EVENT = f"{_INTO} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# SQLite takes its lock to write when the statement begins, and then looks at the condition.
_INSERT_UNBROKEN = f"{_INTO} SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE strandline_unbroken()"


class LoneInsert:
    """Inserts and commits by one statement, which SQLite does in less time than three.

    What was decided before is checked inside of SQLite's lock, by a function that the statement
    calls, and so nothing is stored on grounds that no longer hold. The lock holder's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look: Callable[[], bool] | None = None
        self._cursor: sqlite3.Cursor

    @property
    def is_possible(self) -> bool:
        """Whether the lock's file can be looked at in the midst of a statement."""
        return self._database.lock.look is not None

    def store(self, record: tuple[Any, ...]) -> bool:
        """Store a record; False, with nothing done, where another process writes or has written."""
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
