"""The slots of partitions that were added to a topic, in a separate table."""

import sqlite3
from collections.abc import Mapping, Sequence

from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.partition_row import lost

# Created only in logs in which partitions were once added to a topic.
_TABLE = """CREATE TABLE IF NOT EXISTS strandline_added_slots (
    first_slot INTEGER NOT NULL, number INTEGER NOT NULL, slot INTEGER NOT NULL,
    crc INTEGER NOT NULL, PRIMARY KEY (first_slot, number)) WITHOUT ROWID"""
_INSERT = "INSERT INTO strandline_added_slots VALUES (?, ?, ?, ?)"
_SELECT = (
    "SELECT number, slot, crc FROM strandline_added_slots WHERE first_slot = ? ORDER BY number"
)


def store_added_slots(
    connection: sqlite3.Connection, first_slot: int, slots: Mapping[int, int]
) -> None:
    """Store the slots of new partitions, by their numbers."""
    connection.execute(_TABLE)
    rows = [(first_slot, number, slot) for number, slot in slots.items()]
    connection.executemany(_INSERT, [(*row, row_crc("added_slots", *row)) for row in rows])


def load_added_slots(
    connection: sqlite3.Connection, path: str, first_slot: int, numbers: Sequence[int]
) -> tuple[int, ...]:
    """Return the slots of exactly these partitions; CorruptError if one is missing."""
    found = {}
    for number, slot, crc in connection.execute(_SELECT, (first_slot,)):
        check_row(path, "added_slots", first_slot, (first_slot, number, slot), crc)
        found[number] = slot
    if list(found) != list(numbers):
        raise lost(path, "added_slots", first_slot)
    return tuple(found.values())
