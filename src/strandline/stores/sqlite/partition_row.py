"""The stored row of one partition."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.schema import OFFSET_BITS
from strandline.values import CorruptError, Epoch, Marks, Offset

_OFFSET_MASK = (1 << OFFSET_BITS) - 1
#: Selects records that a partition's row does not count yet.
_TAIL = (
    f"place >= (slot << {OFFSET_BITS} | high) AND place <= (slot << {OFFSET_BITS} | {_OFFSET_MASK})"
)
#: The number of such records, for a query of the partitions.
TAIL_RECORDS = f"(SELECT count(*) FROM strandline_records WHERE {_TAIL})"  # noqa: S608 - Ours.
_SELECT = f"""SELECT low, high, durable, last_us, p.size_bytes, keys_seen, local, epochs,
        identities, identities_sum, p.crc,
        count(place), max(place), max(timestamp_us), sum(r.size_bytes)
    FROM strandline_partitions p LEFT JOIN strandline_records r ON {_TAIL}
    WHERE slot = ? GROUP BY slot"""  # noqa: S608 - Ours.
_WITH_TAIL = f"""SELECT slot FROM strandline_partitions
    WHERE EXISTS (SELECT 1 FROM strandline_records WHERE {_TAIL})"""  # noqa: S608 - Ours.


@dataclass(slots=True)
class PartitionRow:
    """The ends, the last timestamp and the size of one partition.

    The stored row may lag a few records behind: `noted` is the end that the stored row
    knows.
    """

    slot: int
    low: int = 0
    high: int = 0
    durable: int = 0
    last_us: int = 0
    size_bytes: int = 0
    keys_seen: int = 0
    #: The oldest offset that is stored here, if older ones were evicted; else 0.
    local: int = 0
    #: The number of its rows of epochs.
    epochs: int = 1
    #: The number of its rows of producers, sequences and keys, and the sum of their checksums.
    identities: int = 0
    identities_sum: int = 0
    noted: int = 0

    @property
    def first(self) -> int:
        """The oldest offset that is stored here."""
        return max(self.low, self.local)

    def marks(self, durable: int = 0) -> Marks:
        """Return the marks; `durable` is a mark that this process knows."""
        known = min(max(self.durable, durable, self.low), self.high)
        return Marks(Offset(self.low), Offset(self.high), Offset(known))

    def fields(self) -> tuple[int, ...]:
        """Return the columns to store."""
        return (
            *(self.slot, self.low, self.high, self.durable),
            *(self.last_us, self.size_bytes, self.keys_seen, self.local),
            *(self.epochs, self.identities, self.identities_sum),
        )


def lost(path: str, table: str, slot: int) -> CorruptError:
    """Return the error for a missing row."""
    return CorruptError(
        "a row is missing, restore it from a copy",
        file=path,
        position=slot,
        table=f"strandline_{table}",
    )


def place(slot: int, offset: int) -> int:
    """Return a record's row id."""
    return slot << OFFSET_BITS | offset


def load_partition(connection: sqlite3.Connection, path: str, slot: int) -> PartitionRow | None:
    """Return the partition of this slot; None if its topic was dropped."""
    found = connection.execute(_SELECT, (slot,)).fetchone()
    if found is None:
        return None
    *fields, crc, tail, last, last_us, size_bytes = found
    check_row(path, "partitions", slot, (slot, *fields), crc)
    row = PartitionRow(slot, *fields)
    row.noted = row.high
    if tail:
        row.high += tail
        row.last_us = max(row.last_us, last_us)
        row.size_bytes += size_bytes
        if last != place(slot, row.high - 1):
            raise lost(path, "records", last)
    return row


def store_partitions(connection: sqlite3.Connection, rows: Iterable[PartitionRow]) -> None:
    """Store rows, replacing the earlier ones."""
    fields = []
    for row in rows:
        row.noted = row.high
        fields.append(row.fields())
    connection.executemany(
        "INSERT OR REPLACE INTO strandline_partitions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*each, row_crc("partitions", *each)) for each in fields],
    )


def note_tails(connection: sqlite3.Connection, path: str) -> None:
    """Update every partition's row to its records, within the caller's transaction."""
    slots = connection.execute(_WITH_TAIL).fetchall()
    rows = [load_partition(connection, path, slot) for (slot,) in slots]
    store_partitions(connection, [row for row in rows if row is not None])


def load_epochs(connection: sqlite3.Connection, path: str, slot: int) -> list[Epoch]:
    """Return the epochs of a partition, oldest first."""
    epochs = []
    for number, epoch_id, start, crc in connection.execute(
        "SELECT number, id, start, crc FROM strandline_epochs WHERE slot = ? ORDER BY number",
        (slot,),
    ):
        check_row(path, "epochs", slot, (slot, number, epoch_id, start), crc)
        epochs.append(Epoch(number, UUID(bytes=epoch_id), Offset(start)))
    row = connection.execute(
        "SELECT epochs FROM strandline_partitions WHERE slot = ?", (slot,)
    ).fetchone()
    if row is None:
        raise lost(path, "partitions", slot)
    if [epoch.number for epoch in epochs] != list(range(row[0])):
        raise lost(path, "epochs", slot)
    return epochs


def add_epoch(connection: sqlite3.Connection, slot: int, epoch: Epoch) -> None:
    """Store an epoch; the caller must count it in the partition's row."""
    row = (slot, epoch.number, epoch.id.bytes, epoch.start)
    connection.execute(
        "INSERT INTO strandline_epochs VALUES (?, ?, ?, ?, ?)", (*row, row_crc("epochs", *row))
    )
