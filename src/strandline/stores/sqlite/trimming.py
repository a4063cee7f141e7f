"""Removing the oldest records."""

import sqlite3

from strandline.stores.sqlite.chain_values import remove_values
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import PartitionRow, place, store_partitions
from strandline.stores.sqlite.records import Records

#: How many rows are removed before other processes may write.
_ROWS_MAX = 10_000


class Trimming:
    """Moves low-water marks, then removes the records below them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def trim(
        self, connection: sqlite3.Connection, records: Records, row: PartitionRow, low: int
    ) -> None:
        """Raise the low-water mark, within the caller's transaction."""
        if low > row.low:
            row.size_bytes -= records.size_before(connection, row.first, low)
            row.low = low
            row.durable = max(row.durable, low)
            store_partitions(connection, [row])
            self._remove_some(connection, records, low)

    def evict(
        self, connection: sqlite3.Connection, records: Records, row: PartitionRow, before: int
    ) -> None:
        """Raise the oldest offset stored here to `before`, within the caller's transaction."""
        if before > row.first:
            row.size_bytes -= records.size_before(connection, row.first, before)
            row.local = before
            store_partitions(connection, [row])
            self._remove_some(connection, records, before)

    def remove(self, records: Records, low: int) -> None:
        """Remove the records below a raised mark, a bounded number at a time."""
        while self._has_some(records.slot, low):
            with self._database.locked(), self._database.changing() as connection:
                self._remove_some(connection, records, low)

    def _has_some(self, slot: int, low: int) -> bool:
        with self._database.reading() as connection, self._database.translating():
            found = connection.execute(
                "SELECT 1 FROM strandline_records WHERE place >= ? AND place < ? LIMIT 1",
                (place(slot, 0), place(slot, low)),
            ).fetchone()
        return found is not None

    def _remove_some(self, connection: sqlite3.Connection, records: Records, low: int) -> None:
        slot = records.slot
        connection.execute(
            "DELETE FROM strandline_records WHERE place IN (SELECT place FROM strandline_records"
            " WHERE place >= ? AND place < ? ORDER BY place LIMIT ?)",
            (place(slot, 0), place(slot, low), _ROWS_MAX),
        )
        if records.is_proved:
            # Keep the last removed record's value: it is the anchor.
            start, end = place(slot, 0), place(slot, low - 1)
            remove_values(connection, start, end, rows_max=_ROWS_MAX)
