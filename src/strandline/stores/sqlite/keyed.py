"""The keyed area of a topic: a row for each key."""

import sqlite3
from collections.abc import Mapping

from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.topics import TopicEntry

_SELECT = "SELECT key, value, crc FROM strandline_keyed WHERE first_slot = ?"


def all_keys(connection: sqlite3.Connection, path: str, entry: TopicEntry) -> Mapping[str, bytes]:
    """Return every key of a topic with its value."""
    rows = connection.execute(_SELECT, (entry.first_slot,))
    return {key: _checked(path, entry, key, value, crc) for key, value, crc in rows}


def get_key(connection: sqlite3.Connection, path: str, entry: TopicEntry, key: str) -> bytes | None:
    """Return the value; None if there is none."""
    row = connection.execute(f"{_SELECT} AND key = ?", (entry.first_slot, key)).fetchone()
    return None if row is None else _checked(path, entry, *row)


def put_key(connection: sqlite3.Connection, entry: TopicEntry, key: str, value: bytes) -> None:
    """Replace the value, within the caller's transaction."""
    row = (entry.first_slot, key, value)
    connection.execute(
        "INSERT OR REPLACE INTO strandline_keyed VALUES (?, ?, ?, ?)",
        (*row, row_crc("keyed", *row)),
    )


def remove_key(connection: sqlite3.Connection, entry: TopicEntry, key: str) -> bool:
    """Remove the value, within the caller's transaction; False if there was none."""
    removed = connection.execute(
        "DELETE FROM strandline_keyed WHERE first_slot = ? AND key = ?", (entry.first_slot, key)
    )
    return removed.rowcount > 0


def _checked(path: str, entry: TopicEntry, key: str, value: bytes, crc: int) -> bytes:
    check_row(path, "keyed", entry.first_slot, (entry.first_slot, key, value), crc)
    return value
