"""Sending rows of records: as arrays of one statement, or by COPY."""

from typing import Any, Final

from strandline.stores.postgres.arrays import (
    ByteaArray,
    Int4Array,
    Int8Array,
    PackedArray,
    TextArray,
    register_arrays,
)
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.stores.postgres.partition_head import PostgresPartition
from strandline.stores.postgres.records import COLUMNS

Row = tuple[Any, ...]

_ARRAYS: Final[tuple[type[PackedArray], ...]] = (
    *(Int8Array, Int8Array, Int8Array, ByteaArray, TextArray, ByteaArray, ByteaArray),
    *(ByteaArray, Int8Array, Int4Array, ByteaArray),
)
_UNNEST: Final = "unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_INSERT: Final = "INSERT INTO {schema}.records (" + COLUMNS + ") SELECT * FROM " + _UNNEST  # noqa: S608 - Ours.
#: In one statement, which stores nothing if the partition ends elsewhere. The row is locked from
#: the update to the commit, as it is by an append that locks first. Whether a session listens is
#: seen by the lock that it holds: one that begins to listen gets that after this commit, or before
#: this look.
_MOVE_AND_INSERT: Final = (
    "WITH moved AS (UPDATE {schema}.partitions SET high = high + %s,"  # noqa: S608 - Ours.
    " size_bytes = size_bytes + %s, last_us = %s, value = %s"
    " WHERE slot = %s AND high = %s AND timeline = %s RETURNING slot),"
    " stored AS (INSERT INTO {schema}.records (" + COLUMNS + ")"
    " SELECT r.* FROM moved, " + _UNNEST + " AS r)"
    " SELECT NOT pg_try_advisory_xact_lock(%s) FROM moved"
)
_COPY: Final = "COPY {schema}.records (" + COLUMNS + ") FROM STDIN (FORMAT BINARY)"
_COPY_TYPES: Final = (
    *("int8", "int8", "int8", "bytea", "text", "bytea", "bytea"),
    *("bytea", "int8", "int4", "bytea"),
)
#: From so many records, or bytes, on they go by COPY, which needs round trips of its own, and
#: holds none of them as one value.
_COPY_MIN: Final = 5_000
_COPY_BYTES_MIN: Final = 16 * 1024 * 1024


def is_copied(rows: list[Row], size_bytes: int) -> bool:
    """Return whether rows are too many, or too large, for one statement."""
    return len(rows) >= _COPY_MIN or size_bytes >= _COPY_BYTES_MIN


def send_rows(
    connection: Connection, database: PostgresDatabase, rows: list[Row], *, copies: bool
) -> None:
    """Insert rows in the present transaction; to copy them is not possible in a pipeline."""
    cursor = connection.cursor()
    if copies:
        with cursor.copy(database.sql(_COPY)) as copy:
            copy.set_types(_COPY_TYPES)
            for row in rows:
                copy.write_row(row)
    else:
        register_arrays(cursor)
        cursor.execute(database.sql(_INSERT), _columns(rows))


def move_and_insert(
    connection: Connection,
    database: PostgresDatabase,
    before: PostgresPartition,
    after: PostgresPartition,
    rows: list[Row],
) -> bool | None:
    """Store rows and commit; return whether sessions listen.

    None, and nothing stored, if the partition does not end where it did before.
    """
    grown = len(rows), after.size_bytes - before.size_bytes, after.last_us, after.value
    where = before.slot, before.high, before.timeline
    values = *grown, *where, *_columns(rows), database.listening
    stored = connection.execute(database.sql(_MOVE_AND_INSERT), values, prepare=True).fetchone()
    return None if stored is None else bool(stored[0])


def _columns(rows: list[Row]) -> list[Any]:
    columns = zip(_ARRAYS, zip(*rows, strict=True), strict=True)
    return [kind.of(column) for kind, column in columns]
