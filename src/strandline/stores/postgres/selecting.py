"""Finds the next record that may be selected, for comparisons that the server does equally.

Texts are stored as UTF-8 bytes, which the server compares bytewise, whatever its locale, and
times as numbers of microseconds. So each bound has the same meaning in both.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString

from strandline.log.selecting_store import RecordBound
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.stores.postgres.partition_head import PostgresPartition

_AHEAD: Final = 100_000
"""How many records one statement examines."""

_COLUMNS: Final[dict[str, LiteralString]] = {
    "kind": "kind",
    "key": "key",
    "timestamp": "timestamp_us",
    "occurred_at": "occurred_at_us",
}
_FIRST: Final = (
    "SELECT place FROM {schema}.records WHERE slot = %s AND place >= %s AND place < %s AND "
)
_SIGNS: Final[dict[str, LiteralString]] = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def first_meeting(
    database: PostgresDatabase,
    connection: Connection,
    row: PostgresPartition,
    start: int,
    bounds: Sequence[RecordBound],
) -> int:
    """Return the first offset from `start` on that meets the bounds, or the end of the search."""
    bounds = [each for each in bounds if each.column in _COLUMNS]
    if not bounds:
        return start
    end = min(row.high, start + _AHEAD)
    conditions: list[LiteralString] = []
    given: list[Any] = []
    for bound in bounds:
        condition, values = _FORMS.get(bound.comparison, _compared)(_COLUMNS[bound.column], bound)
        conditions.append(condition)
        given += values
    found = connection.execute(
        database.sql(_FIRST + " AND ".join(conditions) + " ORDER BY place LIMIT 1"),
        (row.slot, start, end, *given),
    ).fetchone()
    return end if found is None else int(found[0])


_Form = Callable[[LiteralString, RecordBound], tuple[LiteralString, list[Any]]]


def _compared(column: LiteralString, bound: RecordBound) -> tuple[LiteralString, list[Any]]:
    return f"{column} {_SIGNS[bound.comparison]} %s", [_stored(bound.values[0])]


def _among(column: LiteralString, bound: RecordBound) -> tuple[LiteralString, list[Any]]:
    return f"{column} = ANY(%s)", [[_stored(each) for each in bound.values]]


def _begun(column: LiteralString, bound: RecordBound) -> tuple[LiteralString, list[Any]]:
    prefix = _stored(bound.values[0])
    return f"substring({column} FROM 1 FOR %s) = %s", [len(prefix), prefix]


def _null(column: LiteralString, _: RecordBound) -> tuple[LiteralString, list[Any]]:
    return f"{column} IS NULL", []


def _not_null(column: LiteralString, _: RecordBound) -> tuple[LiteralString, list[Any]]:
    return f"{column} IS NOT NULL", []


_FORMS: Final[dict[str, _Form]] = {
    "in": _among,
    "prefix": _begun,
    "null": _null,
    "not_null": _not_null,
}


def _stored(value: str | int) -> Any:
    return value.encode() if isinstance(value, str) else value
