"""The columns of a predicate, and paths into their values."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import pyarrow as pa

from strandline.predicates.building import Builder
from strandline.predicates.node import Node
from strandline.predicates.paths import PathText
from strandline.predicates.sql_type import (
    DECLARED,
    INTEGERS,
    OPAQUE,
    STRING,
    VARIANT,
    SqlType,
    is_nested,
    sql_type,
)
from strandline.predicates.steps import shown_path, spark_path
from strandline.values.batches import decode_schema

_SHOWN_MAX: Final = 10
SPARK_NAME: Final = b"strandline.spark_name"
"""In the metadata of a column: its name in Spark, if that differs."""


class KnownColumns:
    """The columns of one schema, looked up without regard to case."""

    def __init__(self, schema: pa.Schema, make: Builder) -> None:
        self._schema = schema
        self._make = make
        self._found: dict[str, list[str]] = {}
        for name in schema.names:
            self._found.setdefault(name.lower(), []).append(name)

    def node(self, name: str, at: int) -> Node:
        """Return a column; PredicateError with the existing names if there is none."""
        column = self._column(name, at)
        return self._whole(column, at) if column.type is VARIANT else column

    def at(self, place: PathText) -> Node:
        """Return the value at a path."""
        column = self._column(place.name, place.start)
        if column.type is VARIANT:
            return self._declared_at(column, place)
        arrow = self._schema.field(column.detail).type
        node = column
        for number, (step, start) in enumerate(zip(place.steps, place.starts, strict=True)):
            if node.type is VARIANT:
                rest = place._replace(steps=place.steps[number:], starts=place.starts[number:])
                return self._of_json(node, rest)
            node, arrow = self._step(node, arrow, step, start)
        return self._whole(node, place.start) if node.type is VARIANT else node

    def _column(self, name: str, at: int) -> Node:
        found = self._found.get(name.lower(), [])
        if not found:
            self._make.wrong(f"there is no column {name}, {self._there_is(name)}", at)
        if len(found) > 1:
            self._make.wrong(f"{name} may be any of the columns {', '.join(found)}", at)
        field = self._schema.field(found[0])
        if field.metadata is not None and SPARK_NAME in field.metadata:
            self._make.renamed[at] = field.metadata[SPARK_NAME].decode()
        return Node("column", sql_type(field.type), (), found[0], at)

    def _there_is(self, name: str) -> str:
        known = ", ".join(self._schema.names[:_SHOWN_MAX])
        if name.lower() == "payload":
            return f"since this topic has columns instead of payloads: {known}"
        near = get_close_matches(name.lower(), self._found, n=1)
        return f"the nearest is {self._found[near[0]][0]}" if near else f"there are: {known}"

    def _whole(self, column: Node, at: int) -> Node:
        return Node("place", VARIANT, (column,), (), at)

    def _declared_at(self, column: Node, place: PathText) -> Node:
        """Return the value at a path into JSON, in its declared type if it has one."""
        found = self._of_json(column, place)
        declared = declared_fields(self._schema.field(column.detail))
        kind = declared_type(declared, place, self._make.wrong)
        return found if kind is None else self._make.typed(found, kind)

    def _of_json(self, column: Node, place: PathText) -> Node:
        if spark_path(place.steps) is None:
            self._make.refuse(
                "a name in a path must not be empty, or have a question mark or both kinds of "
                "quotes, which Spark cannot express",
                place.start,
            )
        return Node("place", VARIANT, (column,), place.steps, place.start)

    def _step(
        self, node: Node, arrow: pa.DataType, step: str | int, at: int
    ) -> tuple[Node, pa.DataType]:
        if pa.types.is_struct(arrow) and isinstance(step, str):
            return self._field(node, arrow, step, at)
        if pa.types.is_map(arrow):
            return self._value(node, arrow, step, at)
        is_list = pa.types.is_list(arrow) or pa.types.is_large_list(arrow)
        if not is_list or not isinstance(step, int):
            has = "positions" if is_list else "fields" if pa.types.is_struct(arrow) else "no parts"
            self._make.wrong(f"a value of the type {arrow} has {has}, and not {step!r}", at)
        kind = sql_type(arrow.value_type)
        made = Node("element", kind, (node,), (step, arrow.value_type), at, can_fail=True)
        return made, arrow.value_type

    def _field(self, node: Node, arrow: Any, name: str, at: int) -> tuple[Node, pa.DataType]:
        names = [arrow.field(number).name for number in range(arrow.num_fields)]
        found = [each for each in names if each.lower() == name.lower()]
        if len(found) != 1:
            near = get_close_matches(name, names, n=1)
            hint = f"the nearest is {near[0]}" if near else f"there are: {', '.join(names[:10])}"
            self._make.wrong(f"there is no one field {name}, {hint}", at)
        inner = arrow.field(names.index(found[0])).type
        return Node("field", sql_type(inner), (node,), (found[0], inner), at, node.can_fail), inner

    def _value(self, node: Node, arrow: Any, key: str | int, at: int) -> tuple[Node, pa.DataType]:
        kind = sql_type(arrow.key_type)
        fits = kind is STRING if isinstance(key, str) else kind in INTEGERS
        if not fits:
            self._make.refuse(f"the key of this map is a {kind}, as in ['a'] or [5]", at)
        made = Node(
            "lookup",
            sql_type(arrow.item_type),
            (node,),
            (key, arrow.key_type, arrow.item_type),
            at,
            node.can_fail,
        )
        return made, arrow.item_type


def declared_fields(field: pa.Field) -> pa.DataType | None:
    """Return the declaration of a column of JSON, as a struct; None if there is none."""
    packed = (field.metadata or {}).get(DECLARED)
    return None if packed is None else pa.struct(list(decode_schema(packed)))


def declared_type(
    declared: pa.DataType | None, place: PathText, wrong: Callable[[str, int], NoReturn]
) -> SqlType | None:
    """Return the declared type at a path; None if there is none, or it is nested.

    `wrong` is called with a message and its position for a path that is not declared.
    """
    found: Any = declared
    for number, (step, start) in enumerate(zip(place.steps, place.starts, strict=True)):
        if found is None or isinstance(found, pa.JsonType):
            return None
        before = shown_path(place.name, place.steps[:number])
        if pa.types.is_struct(found) and isinstance(step, str):
            inner = found.get_field_index(step)
            if inner < 0:
                wrong(
                    f"{before} is declared without {step}, {_nearest(found, step, before)}", start
                )
            found = found.field(inner).type
        elif pa.types.is_map(found) and isinstance(step, str):
            found = found.item_type
        elif _is_list(found) and isinstance(step, int):
            found = found.value_type
        else:
            wrong(f"{before} is declared as {_shown(found)}, and has no {step!r}", start)
    if found is None:
        return None
    kind = sql_type(found)
    return None if kind in {VARIANT, OPAQUE} or is_nested(kind) else kind


def _nearest(declared: Any, name: str, before: str) -> str:
    names = [declared.field(number).name for number in range(declared.num_fields)]
    folded = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"the nearest is {before}.{folded[near[0]]}"
    return f"there are: {', '.join(names[:_SHOWN_MAX])}"


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _shown(arrow: pa.DataType) -> str:
    kind = sql_type(arrow)
    if pa.types.is_struct(arrow):
        return "an object"
    return "an array" if _is_list(arrow) else "a map" if is_nested(kind) else str(kind)
