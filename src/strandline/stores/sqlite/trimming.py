"""Removing the oldest records."""

import sqlite3

from strandline.stores.sqlite.chain_values import remove_values
from strandline.stores.sqlite.consumers import Consumers
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import PartitionRow, place, store_partitions
from strandline.stores.sqlite.records import Records
from strandline.values import Offset, TopicSettings, TrimReport

#: How many rows are removed before others may write.
_ROWS_MAX = 10_000


class Trimming:
    """Moves low-water marks, then removes what lies below them."""

    def __init__(self, database: Database, consumers: Consumers) -> None:
        self._database = database
        self._consumers = consumers

    def trim(
        self,
        connection: sqlite3.Connection,
        records: Records,
        row: PartitionRow,
        before: int,
        *,
        force: bool,
        least: int = 0,
    ) -> TrimReport:
        """Move the low-water mark, within the caller's transaction; to `least` in any case."""
        before = max(before, least)
        held_at = None if force else self._consumers.held_at(connection, row.slot)
        if held_at is not None and max(held_at, least) >= before:
            held_at = None
        low = max(row.low, before if held_at is None else held_at, least)
        removed = low - row.low
        if removed:
            row.size_bytes -= records.size_before(connection, row.first, low)
            row.low = low
            row.durable = max(row.durable, low)
            store_partitions(connection, [row])
            self._remove_some(connection, records, low)
        return TrimReport(records.partition, removed, row.high - low, Offset(low), held_at)

    def evict(
        self, connection: sqlite3.Connection, records: Records, row: PartitionRow, before: int
    ) -> None:
        """Move what is stored here on to `before`, within the caller's transaction."""
        if before > row.first:
            row.size_bytes -= records.size_before(connection, row.first, before)
            row.local = before
            store_partitions(connection, [row])
            self._remove_some(connection, records, before)

    def retained_from(
        self,
        connection: sqlite3.Connection,
        records: Records,
        row: PartitionRow,
        settings: TopicSettings,
    ) -> int:
        """Return the offset before which the topic's retention wants nothing kept."""
        before = row.low
        if settings.retention_age_s is not None:
            oldest_us = self._database.clock.now_us() - settings.retention_age_s * 1_000_000
            aged = records.offset_at(connection, row, oldest_us)
            # What was evicted may be younger.
            if aged > row.first:
                before = max(before, aged)
        if settings.retention_bytes is not None and row.high > row.low:
            most = settings.retention_bytes
            before = max(before, records.first_within(connection, row, most))
        return before

    def limited_from(
        self,
        connection: sqlite3.Connection,
        records: Records,
        row: PartitionRow,
        settings: TopicSettings,
    ) -> int:
        """Return the offset before which nothing is kept, whoever may still want it."""
        if settings.limit_bytes is None or row.high == row.low:
            return 0
        return records.first_within(connection, row, settings.limit_bytes)

    def remove(self, records: Records, low: int) -> None:
        """Remove what lies below a mark that was moved, a bounded piece at a time."""
        while self._has_some(records.slot, low):
            with self._database.changing() as connection:
                self._remove_some(connection, records, low)

    def _has_some(self, slot: int, low: int) -> bool:
        with self._database.reading() as connection:
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
            # The value of the last record removed stays: it is the anchor.
            start, end = place(slot, 0), place(slot, low - 1)
            remove_values(connection, start, end, rows_max=_ROWS_MAX)
