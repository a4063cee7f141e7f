"""Named cursors, kept beside the records."""

import sqlite3
from typing import NamedTuple
from uuid import UUID

from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import PartitionRow, load_epochs
from strandline.stores.sqlite.topics import TopicEntry
from strandline.values import (
    CONSUMER_SILENCE_S,
    ConsumerLag,
    DivergedError,
    InvalidError,
    Offset,
    Partition,
    Position,
    Tenant,
    TrimmedError,
    check_position,
    epoch_before,
)

_SILENCE_US = CONSUMER_SILENCE_S * 1_000_000
_SELECT = (
    "SELECT tenant, consumer, cursor, seen_at_us, epoch, epoch_id, crc"
    " FROM strandline_consumers WHERE slot = ?"
)


class Cursor(NamedTuple):
    """One consumer's place in one partition, as it is stored."""

    tenant: str
    consumer: str
    offset: int
    seen_at_us: int
    epoch: int
    epoch_id: bytes


class Consumers:
    """Finds and moves cursors on a connection that the caller brings."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(
        self, connection: sqlite3.Connection, slot: int, tenant: Tenant | None, consumer: str
    ) -> Cursor | None:
        """Return the cursor, if there is one."""
        row = connection.execute(
            f"{_SELECT} AND tenant = ? AND consumer = ?", (slot, tenant or "", consumer)
        ).fetchone()
        return None if row is None else self._load(slot, row)

    def check(
        self, connection: sqlite3.Connection, entry: TopicEntry, row: PartitionRow, cursor: Cursor
    ) -> None:
        """Raise DivergedError if the log has lost records that the cursor had passed."""
        position = Position(
            self._database.log_id,
            entry.topic.id,
            Partition(row.slot - entry.first_slot),
            Offset(cursor.offset),
            cursor.epoch,
            UUID(bytes=cursor.epoch_id),
        )
        epochs = load_epochs(connection, self._database.path, row.slot)
        try:
            check_position(position, epochs, row.marks())
        except TrimmedError:
            pass  # Whoever reads from there is told.
        except InvalidError as error:
            raise DivergedError(row.high, **error.fields) from error

    def put(
        self,
        connection: sqlite3.Connection,
        slot: int,
        tenant: Tenant | None,
        consumer: str,
        offset: int,
    ) -> None:
        """Put the cursor to `offset`; it has shown a sign of life."""
        epoch = epoch_before(offset, load_epochs(connection, self._database.path, slot))
        now_us = self._database.clock.now_us()
        row = (slot, tenant or "", consumer, offset, now_us, epoch.number, epoch.id.bytes)
        connection.execute(
            "INSERT OR REPLACE INTO strandline_consumers VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, row_crc("consumers", *row)),
        )

    def forget(
        self, connection: sqlite3.Connection, slots: range, tenant: Tenant | None, consumer: str
    ) -> bool:
        """Remove the cursors; False if there were none."""
        removed = connection.execute(
            "DELETE FROM strandline_consumers"
            " WHERE slot >= ? AND slot < ? AND tenant = ? AND consumer = ?",
            (slots.start, slots.stop, tenant or "", consumer),
        )
        return removed.rowcount > 0

    def lags(
        self,
        connection: sqlite3.Connection,
        entry: TopicEntry,
        row: PartitionRow,
        tenant: Tenant | None,
    ) -> list[ConsumerLag]:
        """Return the tenant's consumers of one partition."""
        return [
            ConsumerLag(
                cursor.consumer,
                tenant,
                Partition(row.slot - entry.first_slot),
                Offset(cursor.offset),
                max(0, row.high - cursor.offset),
                cursor.seen_at_us,
                self._is_live(cursor),
            )
            for cursor in self._all(connection, row.slot)
            if cursor.tenant == (tenant or "")
        ]

    def held_at(self, connection: sqlite3.Connection, slot: int) -> Offset | None:
        """Return the cursor of the slowest live consumer of any tenant."""
        cursors = self._all(connection, slot)
        live = (Offset(cursor.offset) for cursor in cursors if self._is_live(cursor))
        return min(live, default=None)

    def _all(self, connection: sqlite3.Connection, slot: int) -> list[Cursor]:
        return [self._load(slot, row) for row in connection.execute(_SELECT, (slot,)).fetchall()]

    def _load(self, slot: int, row: tuple[str, str, int, int, int, bytes, int]) -> Cursor:
        check_row(self._database.path, "consumers", slot, (slot, *row[:6]), row[6])
        return Cursor(*row[:6])

    def _is_live(self, cursor: Cursor) -> bool:
        return self._database.clock.now_us() - cursor.seen_at_us <= _SILENCE_US
