"""What the log knows of one partition besides its records."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from strandline.log.sqlite.checksum import check_row, row_crc
from strandline.log.sqlite.schema import OFFSET_BITS
from strandline.values import CorruptError, Epoch, InvalidError, Marks, Offset, TrimmedError

_SELECT = "SELECT low, high, durable, last_us, size_bytes, keys_seen, crc"


@dataclass(slots=True)
class PartitionRow:
    """The ends, the last timestamp and the size of one partition."""

    slot: int
    low: int = 0
    high: int = 0
    durable: int = 0
    last_us: int = 0
    size_bytes: int = 0
    keys_seen: int = 0

    def marks(self, durable: int = 0) -> Marks:
        """Return the ends; `durable` is a mark that this process knows of."""
        known = min(max(self.durable, durable, self.low), self.high)
        return Marks(Offset(self.low), Offset(self.high), Offset(known))

    def fields(self) -> tuple[int, int, int, int, int, int, int]:
        """Return what is stored."""
        return (
            *(self.slot, self.low, self.high, self.durable),
            *(self.last_us, self.size_bytes, self.keys_seen),
        )

    def check_kept(self, offset: int) -> Offset:
        """Return `offset` if it lies between the ends, else raise."""
        if offset < self.low:
            raise TrimmedError(self.low, offset=offset)
        return self.check_not_beyond(offset)

    def check_not_beyond(self, offset: int) -> Offset:
        """Return `offset` unless it lies beyond the end, else raise InvalidError."""
        if offset > self.high:
            raise InvalidError(
                "this lies beyond the end of the partition", offset=offset, end=self.high
            )
        return Offset(offset)


def lost(path: str, table: str, slot: int) -> CorruptError:
    """Return the error for a row that must be there and is not."""
    return CorruptError(
        "a row is missing, restore it from a copy",
        file=path,
        position=slot,
        table=f"strandline_{table}",
    )


def place(slot: int, offset: int) -> int:
    """Return the row of a record."""
    return slot << OFFSET_BITS | offset


def load_partition(connection: sqlite3.Connection, path: str, slot: int) -> PartitionRow | None:
    """Return the partition of this slot; None if its topic was dropped."""
    row = connection.execute(
        f"{_SELECT} FROM strandline_partitions WHERE slot = ?", (slot,)
    ).fetchone()
    if row is None:
        return None
    check_row(path, "partitions", slot, (slot, *row[:6]), row[6])
    return PartitionRow(slot, *row[:6])


def store_partitions(connection: sqlite3.Connection, rows: Iterable[PartitionRow]) -> None:
    """Put these in place of what was known."""
    fields = [row.fields() for row in rows]
    connection.executemany(
        "INSERT OR REPLACE INTO strandline_partitions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(*each, row_crc("partitions", *each)) for each in fields],
    )


def load_epochs(connection: sqlite3.Connection, path: str, slot: int) -> list[Epoch]:
    """Return the epochs of a partition, oldest first."""
    epochs = []
    for number, epoch_id, start, crc in connection.execute(
        "SELECT number, id, start, crc FROM strandline_epochs WHERE slot = ? ORDER BY number",
        (slot,),
    ):
        check_row(path, "epochs", slot, (slot, number, epoch_id, start), crc)
        epochs.append(Epoch(number, UUID(bytes=epoch_id), Offset(start)))
    if not epochs:
        raise lost(path, "epochs", slot)
    return epochs


def add_epoch(connection: sqlite3.Connection, slot: int, epoch: Epoch) -> None:
    """Begin an epoch."""
    row = (slot, epoch.number, epoch.id.bytes, epoch.start)
    connection.execute(
        "INSERT INTO strandline_epochs VALUES (?, ?, ?, ?, ?)", (*row, row_crc("epochs", *row))
    )
