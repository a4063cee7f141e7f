"""The keyed area of a topic: a row for each key.

The names of the keys are stored in a second table, so that a missing row is damage, and not
a key that was never set. Only adding and removing keys changes that table.
"""

import sqlite3
from collections.abc import Mapping

from strandline.stores.file_errors import missing_key
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import CorruptError

_SELECT = "SELECT key, value, crc FROM strandline_keyed WHERE first_slot = ?"
_SELECT_NAMES = "SELECT key, crc FROM strandline_keyed_names WHERE first_slot = ?"


def all_keys(connection: sqlite3.Connection, path: str, entry: SqliteTopic) -> Mapping[str, bytes]:
    """Return every key of a topic with its value; CorruptError if one is damaged or missing.

    Both tables are read, so call it within a transaction.
    """
    rows = connection.execute(_SELECT, (entry.first_slot,))
    found = {key: _checked(path, entry, key, value, crc) for key, value, crc in rows}
    names = set()
    for name, crc in connection.execute(_SELECT_NAMES, (entry.first_slot,)):
        _check_name(path, entry, name, crc)
        names.add(name)
    for name in sorted(names ^ found.keys()):
        raise _missing(path, entry, name)
    return found


def get_key(
    connection: sqlite3.Connection, path: str, entry: SqliteTopic, key: str
) -> bytes | None:
    """Return the value; None if there is none, CorruptError if it is damaged or missing.

    Both tables are read, so call it within a transaction.
    """
    place = (entry.first_slot, key)
    row = connection.execute(f"{_SELECT} AND key = ?", place).fetchone()
    if row is not None:
        return _checked(path, entry, *row)
    if connection.execute(f"{_SELECT_NAMES} AND key = ?", place).fetchone() is not None:
        raise _missing(path, entry, key)
    return None


def put_key(connection: sqlite3.Connection, entry: SqliteTopic, key: str, value: bytes) -> None:
    """Replace the value, within the caller's transaction."""
    row = (entry.first_slot, key, value)
    connection.execute(
        "INSERT OR REPLACE INTO strandline_keyed VALUES (?, ?, ?, ?)",
        (*row, row_crc("keyed", *row)),
    )


def name_key(connection: sqlite3.Connection, entry: SqliteTopic, key: str) -> None:
    """Store the name of a new key, within the caller's transaction."""
    name = (entry.first_slot, key)
    connection.execute(
        "INSERT INTO strandline_keyed_names VALUES (?, ?, ?)",
        (*name, row_crc("keyed_names", *name)),
    )


def remove_key(connection: sqlite3.Connection, entry: SqliteTopic, key: str) -> bool:
    """Remove a key, also a damaged or missing one; False if there was none."""
    removed = [
        connection.execute(
            f"DELETE FROM strandline_{table} WHERE first_slot = ? AND key = ?",  # noqa: S608 - Ours.
            (entry.first_slot, key),
        )
        for table in ("keyed", "keyed_names")
    ]
    return any(each.rowcount for each in removed)


def _checked(path: str, entry: SqliteTopic, key: str, value: bytes, crc: int) -> bytes:
    check_row(path, "keyed", entry.first_slot, (entry.first_slot, key, value), crc)
    return value


def _check_name(path: str, entry: SqliteTopic, key: str, crc: int) -> None:
    check_row(path, "keyed_names", entry.first_slot, (entry.first_slot, key), crc)


def _missing(path: str, entry: SqliteTopic, key: str) -> CorruptError:
    return missing_key(path, entry.first_slot, key=key)
