"""Removes records, and has the server reuse their space. See design 0129."""

import contextlib
import threading
from typing import Final

from strandline.stores.postgres.database import PostgresDatabase
from strandline.values import StrandlineError

#: How many rows are removed in one transaction.
_ROWS_MAX: Final = 10_000
#: Autovacuum runs once a minute. If rows are removed faster, they are vacuumed here, from this
#: number and this part of the table on.
_DEAD_ROWS: Final = 50_000
_DEAD_PART: Final = 0.1
_REMOVE: Final = (
    "DELETE FROM {schema}.records WHERE slot = %s AND place < %s AND place < %s + "
    "(SELECT min(place) FROM {schema}.records WHERE slot = %s)"
)
_ROWS: Final = "SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)"
#: Without truncating: that would lock the table for a moment.
_VACUUM: Final = "VACUUM (SKIP_LOCKED, TRUNCATE FALSE) {schema}.records"


class RecordRemoval:
    """Removes rows before the first record of a partition. Any thread may use it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        #: How many rows this process has removed since it last vacuumed the table.
        self._dead = 0

    def remove(self, slot: int, first: int) -> None:
        """Remove the rows before `first`, a bounded number at a time."""
        removed = 0
        with self._database.connection() as connection:
            while count := connection.execute(
                self._database.sql(_REMOVE), (slot, first, _ROWS_MAX, slot)
            ).rowcount:
                removed += count
        with self._lock:
            self._dead += removed
        # If it fails, as for a user who does not own the table, autovacuum does it.
        with contextlib.suppress(StrandlineError):
            self._vacuum()

    def _vacuum(self) -> None:
        if self._dead < _DEAD_ROWS:
            return
        database = self._database
        with database.connection() as connection:
            row = connection.execute(_ROWS, (f"{database.schema}.records",)).fetchone()
            if row is None or self._dead < _DEAD_PART * row[0]:
                return
            with self._lock:
                self._dead = 0
            connection.execute(database.sql(_VACUUM))
