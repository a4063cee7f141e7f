"""The chain's values of a topic with a proof: one for each record, in a separate table."""

import sqlite3
from collections.abc import Iterable
from typing import TypeAlias

from strandline.log.chain import Chain
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.partition_row import lost, place

ValueRow: TypeAlias = tuple[int, bytes, int]
"""Place of a record, the chain's value after it, checksum."""

# Created only in logs that once had a topic with a proof.
_TABLE = """CREATE TABLE IF NOT EXISTS strandline_proofs (
    place INTEGER PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL)"""
_INSERT = "INSERT OR REPLACE INTO strandline_proofs VALUES (?, ?, ?)"
SELECT_VALUES = "SELECT place, value, crc FROM strandline_proofs WHERE place >= ? AND place < ?"


def make_table(connection: sqlite3.Connection) -> None:
    """Create the table, if it is missing."""
    connection.execute(_TABLE)


def value_row(slot: int, offset: int, value: bytes) -> ValueRow:
    """Return the row of the chain's value after the record at `offset`."""
    number = place(slot, offset)
    return number, value, row_crc("proofs", number, value)


def store_values(connection: sqlite3.Connection, rows: Iterable[ValueRow]) -> None:
    """Store the values of new records."""
    connection.executemany(_INSERT, rows)


def load_value(
    connection: sqlite3.Connection, path: str, slot: int, offset: int, chain: Chain
) -> bytes:
    """Return the chain's value before `offset`; CorruptError if it is missing or damaged."""
    if offset == 0:
        return chain.origin
    number = place(slot, offset - 1)
    row = connection.execute(SELECT_VALUES, (number, number + 1)).fetchone()
    if row is None:
        raise lost(path, "proofs", number)
    return checked_value(path, row)


def remove_values(
    connection: sqlite3.Connection, start: int, end: int, *, rows_max: int | None = None
) -> None:
    """Remove the values of the places [start, end), or some of them."""
    connection.execute(
        "DELETE FROM strandline_proofs WHERE place IN (SELECT place FROM strandline_proofs"
        " WHERE place >= ? AND place < ? ORDER BY place LIMIT ?)",
        (start, end, -1 if rows_max is None else rows_max),
    )


def checked_value(path: str, row: ValueRow) -> bytes:
    """Return the value in a row; CorruptError if it does not match its checksum."""
    check_row(path, "proofs", row[0], row[:2], row[2])
    return row[1]
