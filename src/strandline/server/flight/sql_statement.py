"""The check of a statement before it runs: one SELECT over topics and harmless functions."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import duckdb
import msgspec

from strandline.values import InvalidError

SQL_CHARS_MAX: Final = 32 * 1024
"""The maximal length of a statement: DuckDB's planning time cannot be limited otherwise."""
CATALOG, SCHEMA = "strandline", "main"
_FUNCTIONS: Final = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}
)
#: Functions whose result can be as large as an argument; DuckDB has no limit for one value.
_LARGE: Final = frozenset(
    {"array_resize", "bar", "format", "generate_series", "list_resize", "lpad", "printf"}
    | {"range", "repeat", "rpad"}
)


class NamedTable(NamedTuple):
    """A table as a statement names it."""

    name: str
    catalog: str
    schema: str


def tables_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """Return the tables that a statement reads.

    InvalidError unless it is one SELECT of tables and of functions that read nothing else.
    DuckDB parses it, so that what is checked is what runs.
    """
    if len(sql) > SQL_CHARS_MAX:
        raise InvalidError(
            "this statement is too long", characters=len(sql), characters_max=SQL_CHARS_MAX
        )
    found: list[NamedTable] = []
    local: set[str] = set()
    as_tables: list[Any] = []
    for node in _nodes(_parsed(connection, sql)):
        kind = node.get("type")
        if kind == "BASE_TABLE":
            found.append(NamedTable(node["table_name"], node["catalog_name"], node["schema_name"]))
        elif kind == "TABLE_FUNCTION":
            _check_function(node["function"]["function_name"])
            as_tables.append(node["function"])
        elif node.get("class") == "FUNCTION" and not any(node is each for each in as_tables):
            _check_value(node["function_name"])
        elif kind == "SHOW_REF":
            raise InvalidError("a statement is one SELECT over topics; GetTables lists them")
        for each in (node.get("cte_map") or {}).get("map", ()):
            local.add(each["key"].lower())
    internal = _internal_names(connection)
    if shadowed := sorted(local & internal):
        raise InvalidError("this name is DuckDB's own, choose another", name=shadowed[0])
    return [each.name for each in dict.fromkeys(found) if not _is_local(each, local)]


def _parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    try:
        row = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
        assert row is not None
        found = msgspec.json.decode(row[0])
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InvalidError("this statement cannot be read", reason=str(error)) from None
    if found["error"]:
        raise InvalidError("a statement is one SELECT over topics", reason=found["error_message"])
    if len(found["statements"]) != 1:
        raise InvalidError(
            "a statement is one SELECT over topics", statements=len(found["statements"])
        )
    return found["statements"][0]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            yield each
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)


def _check_function(name: str) -> None:
    if name.lower() not in _FUNCTIONS:
        raise InvalidError(
            "a statement reads topics, and no other functions than these",
            function=name,
            known=sorted(_FUNCTIONS),
        )


def _check_value(name: str) -> None:
    if name.lower() in _LARGE:
        raise InvalidError(
            "this function may make one value of any size, and is refused; rows of numbers come"
            " from FROM range(…)",
            function=name,
        )


def _is_local(table: NamedTable, local: set[str]) -> bool:
    if table.catalog.lower() not in ("", CATALOG) or table.schema.lower() not in ("", SCHEMA):
        if table.schema.lower() != CATALOG or table.catalog:
            raise InvalidError(
                f"topics are tables of {CATALOG}.{SCHEMA}",
                table=".".join(filter(None, (table.catalog, table.schema, table.name))),
            )
        return False
    return not table.schema and not table.catalog and table.name.lower() in local


def _internal_names(connection: duckdb.DuckDBPyConnection) -> set[str]:
    found = connection.execute("SELECT view_name FROM duckdb_views() WHERE internal").fetchall()
    return {name.lower() for (name,) in found}
