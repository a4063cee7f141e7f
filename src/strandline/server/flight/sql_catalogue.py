"""What Flight SQL clients ask of a server: which tables there are, and what it can do."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

import strandline
from strandline.log import Log
from strandline.server.caller import Caller
from strandline.server.flight.reading import declared_schema
from strandline.server.flight.sql_messages import SqlMessage
from strandline.server.flight.sql_statement import CATALOG, SCHEMA

TABLE_TYPE: Final = "TABLE"
_TABLES: Final = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("table_type", pa.string(), nullable=False),
    ]
)
_WITH_SCHEMAS: Final = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_CATALOGS: Final = pa.schema([pa.field("catalog_name", pa.string(), nullable=False)])
_SCHEMAS: Final = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string(), nullable=False),
    ]
)
_TABLE_TYPES: Final = pa.schema([pa.field("table_type", pa.string(), nullable=False)])
_VALUE: Final = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
_SQL_INFO: Final = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", _VALUE, nullable=False),
    ]
)
_TEXT, _FLAG, _NUMBER, _BITS = 0, 1, 2, 3
_INFO: Final[dict[int, tuple[int, Any]]] = {
    0: (_TEXT, "Strandline"),
    1: (_TEXT, strandline.__version__),
    2: (_TEXT, pa.__version__),
    3: (_FLAG, True),  # Read only.
    4: (_FLAG, True),  # SQL.
    5: (_FLAG, False),  # Substrait.
    8: (_BITS, 0),  # No transactions.
    9: (_FLAG, False),  # No cancelling.
    10: (_FLAG, True),  # Bulk ingestion.
    11: (_FLAG, False),  # Ingestion in transactions.
    100: (_NUMBER, 0),
    101: (_NUMBER, 0),
    504: (_TEXT, '"'),  # What quotes a name.
}
"""By the numbers of SqlInfo."""


def metadata_rows(log: Log, caller: Caller, asked: SqlMessage) -> pa.Table | None:
    """Return the rows that answer a command about the server; None for other commands."""
    answer = _ANSWERS.get(asked.name)
    return None if answer is None else answer(log, caller, asked)


def _catalogs(log: Log, caller: Caller, asked: SqlMessage) -> pa.Table:
    del log, caller, asked
    return pa.table([[CATALOG]], schema=_CATALOGS)


def _schemas(log: Log, caller: Caller, asked: SqlMessage) -> pa.Table:
    del log, caller
    is_wanted = _is_catalog(asked.text(1)) and _like(asked.text(2))(SCHEMA)
    rows = [[CATALOG], [SCHEMA]] if is_wanted else [[], []]
    return pa.table(rows, schema=_SCHEMAS)


def _table_types(log: Log, caller: Caller, asked: SqlMessage) -> pa.Table:
    del log, caller, asked
    return pa.table([[TABLE_TYPE]], schema=_TABLE_TYPES)


def _tables(log: Log, caller: Caller, asked: SqlMessage) -> pa.Table:
    types = asked.texts(4)
    is_wanted = (
        _is_catalog(asked.text(1))
        and _like(asked.text(2))(SCHEMA)
        and (not types or TABLE_TYPE in types)
    )
    matches = _like(asked.text(3))
    topics = [each for each in caller.all_of(log) if is_wanted and matches(each.name)]
    count = len(topics)
    columns: list[Sequence[Any]] = [
        [CATALOG] * count,
        [SCHEMA] * count,
        [each.name for each in topics],
        [TABLE_TYPE] * count,
    ]
    if not asked.flag(5):
        return pa.table(columns, schema=_TABLES)
    packed = [declared_schema(log, each).serialize().to_pybytes() for each in topics]
    return pa.table([*columns, packed], schema=_WITH_SCHEMAS)


def _sql_info(log: Log, caller: Caller, asked: SqlMessage) -> pa.Table:
    del log, caller
    wanted = asked.numbers(1) or list(_INFO)
    known = [number for number in wanted if number in _INFO]
    types = [_INFO[number][0] for number in known]
    children: list[list[Any]] = [[] for _ in range(_VALUE.num_fields)]
    places = []
    for number in known:
        kind, value = _INFO[number]
        places.append(len(children[kind]))
        children[kind].append(value)
    arrays = [pa.array(each, field.type) for each, field in zip(children, _VALUE, strict=True)]
    values = pa.UnionArray.from_dense(
        pa.array(types, pa.int8()),
        pa.array(places, pa.int32()),
        arrays,
        [field.name for field in _VALUE],
    )
    return pa.table([pa.array(known, pa.uint32()), values], schema=_SQL_INFO)


def _is_catalog(name: str | None) -> bool:
    return name is None or name == CATALOG


def _like(pattern: str | None) -> Callable[[str], bool]:
    """Return what matches names with a pattern of SQL, in which % and _ stand for others."""
    if pattern is None:
        pattern = "%"
    parts = [
        ".*" if part == "%" else "." if part == "_" else re.escape(part)
        for part in re.split("([%_])", pattern)
    ]
    matching = re.compile("".join(parts), re.DOTALL)
    return lambda name: matching.fullmatch(name) is not None


_ANSWERS: Final[dict[str, Callable[[Log, Caller, SqlMessage], pa.Table]]] = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _table_types,
    "CommandGetSqlInfo": _sql_info,
}
