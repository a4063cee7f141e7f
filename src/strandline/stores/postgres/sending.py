"""Sends records: one as a statement's values, several as its arrays, many by COPY."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from strandline.log.stored_records import PlacedDrafts
from strandline.stores.postgres.arrays import (
    ByteaArray,
    EncodedArray,
    Int4Array,
    Int8Array,
    PackedArray,
    TextArray,
    register_arrays,
)
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.stores.postgres.partition_head import PostgresPartition
from strandline.stores.postgres.prepared import PreparedStatement
from strandline.stores.postgres.records import COLUMNS, columns_of

_int4: Final = Struct(">i").pack
_int8: Final = Struct(">q").pack
_FALSE: Final = b"\0"
#: The types of the columns except the slot.
_ARRAYS: Final[tuple[type[PackedArray], ...]] = (
    *(Int8Array, Int8Array, EncodedArray, TextArray, EncodedArray, ByteaArray),
    *(ByteaArray, Int8Array, Int4Array, ByteaArray),
)
_INTO: Final = "INSERT INTO {schema}.records (" + COLUMNS + ") SELECT "
#: Arrays side by side in the select list are read while inserting; as tables in FROM, each
#: would be stored first. A shorter array, such as an empty one, is continued with NULL.
_INSERT: Final = _INTO + "%s::int8, " + ", ".join(["unnest(%s)"] * len(_ARRAYS))
#: One statement, which stores nothing if the partition has another end. The row is locked from
#: the update to the commit, as by an append that locks first. A listening session holds a lock:
#: one that begins to listen gets the lock after this commit, or before this statement checks
#: for it.
_MOVE: Final = (
    "WITH moved AS (UPDATE {schema}.partitions SET high = high + $1::int8,"
    " size_bytes = size_bytes + $2::int8, last_us = $3::int8, value = $4::bytea"
    " WHERE slot = $5::int8 AND high = $6::int8 AND timeline = $7::text RETURNING slot)"
)
_HAS_LISTENER: Final = "NOT pg_try_advisory_xact_lock($8::int8)"
_MOVE_AND_INSERT: Final = (
    _MOVE + ", stored AS (" + _INTO + "slot, unnest($9::int8[]), unnest($10::int8[]),"  # noqa: S608 - Ours.
    " unnest($11::bytea[]), unnest($12::text[]), unnest($13::bytea[]), unnest($14::bytea[]),"
    " unnest($15::bytea[]), unnest($16::int8[]), unnest($17::int4[]), unnest($18::bytea[])"
    " FROM moved) SELECT " + _HAS_LISTENER + " FROM moved"
)
_MOVE_AND_INSERT_ONE: Final = (
    _MOVE + " " + _INTO + "slot, $9::int8, $10::int8, $11::bytea, $12::text, $13::bytea,"
    " $14::bytea, $15::bytea, $16::int8, $17::int4, $18::bytea"
    " FROM moved RETURNING " + _HAS_LISTENER
)
_COPY: Final = "COPY {schema}.records (" + COLUMNS + ") FROM STDIN (FORMAT BINARY)"
_COPY_TYPES: Final = (
    *("int8", "int8", "int8", "bytea", "text", "bytea", "bytea"),
    *("bytea", "int8", "int4", "bytea"),
)
#: From this many records or bytes on, use COPY, which needs round trips of its own and does
#: not keep all records in one value.
_COPY_MIN: Final = 5_000
_COPY_BYTES_MIN: Final = 16 * 1024 * 1024


def is_copied(count: int, size_bytes: int) -> bool:
    """Whether these are too many records, or too large ones, for one statement."""
    return count >= _COPY_MIN or size_bytes >= _COPY_BYTES_MIN


def send_records(
    connection: Connection,
    database: PostgresDatabase,
    slot: int,
    placed: Sequence[PlacedDrafts],
    *,
    copies: bool,
) -> None:
    """Insert records in the current transaction; COPY is not possible in a pipeline."""
    cursor = connection.cursor()
    if copies:
        with cursor.copy(database.sql(_COPY)) as copy:
            copy.set_types(_COPY_TYPES)
            for offset, stamp, key, tenant, kind, *rest in zip(*columns_of(placed), strict=True):
                copy.write_row((slot, offset, stamp, _encoded(key), tenant, _encoded(kind), *rest))
    else:
        register_arrays(cursor)
        cursor.execute(database.sql(_INSERT), (slot, *_arrays(placed)))


class AppendStatements:
    """Statements that store and commit appends to a partition whose end is known."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._one = PreparedStatement(database, "one", _MOVE_AND_INSERT_ONE)
        self._many = PreparedStatement(database, "many", _MOVE_AND_INSERT)
        self._listening = _int8(database.listening)

    def move_and_insert(
        self,
        connection: Connection,
        before: PostgresPartition,
        after: PostgresPartition,
        placed: Sequence[PlacedDrafts],
    ) -> bool | None:
        """Store records and commit; return whether sessions listen.

        None, with nothing stored, if the partition no longer ends at `before`.
        """
        count = after.high - before.high
        statement, values = (
            (self._one, _row(placed)) if count == 1 else (self._many, _arrays(placed))
        )
        has_listener = statement.execute(
            connection,
            [
                *(_int8(count), _int8(after.size_bytes - before.size_bytes)),
                *(_int8(after.last_us), after.value, _int8(before.slot), _int8(before.high)),
                *(before.timeline.encode(), self._listening, *values),
            ],
        )
        return None if has_listener is None else has_listener != _FALSE


def _arrays(placed: Sequence[PlacedDrafts]) -> list[PackedArray]:
    columns = zip(_ARRAYS, columns_of(placed), strict=True)
    return [kind.of(column) for kind, column in columns]


def _row(placed: Sequence[PlacedDrafts]) -> tuple[bytes | None, ...]:
    columns = (column[0] for column in columns_of(placed))
    offset, stamp, key, tenant, kind, value, headers, occurred_at_us, size_bytes, chained = columns
    return (
        *(_int8(offset), _int8(stamp), _encoded(key), _encoded(tenant), _encoded(kind), value),
        *(headers, None if occurred_at_us is None else _int8(occurred_at_us)),
        *(_int4(size_bytes), chained),
    )


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
