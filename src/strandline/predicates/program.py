"""Predicates made ready to run: each column and each distinct operation once."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strandline.predicates.kernels import kernel, scalar
from strandline.predicates.node import Node
from strandline.predicates.sql_type import (
    DATE,
    MAP,
    OPAQUE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    arrow_type,
)
from strandline.values import InvalidError


class Program:
    """What computes several nodes over one batch."""

    __slots__ = ("_columns", "_plain", "_results", "_schema", "_start", "_steps")

    def __init__(self, nodes: Sequence[Node], schema: pa.Schema) -> None:
        self._schema = schema
        self._start: list[Any] = []
        self._columns: list[tuple[int, int, Any]] = []
        self._steps: list[tuple[int, Any, tuple[int, ...]]] = []
        places: dict[Node, int] = {}
        self._results = [self._place(node, places) for node in nodes]

    def run(self, batch: pa.RecordBatch) -> list[Any]:
        """Return for each node its column over `batch`; ArrowInvalid where a row fails."""
        values = self._start.copy()
        column = batch.column
        is_same = batch.schema.equals(self._schema)
        for place, index, change in self._columns:
            found = column(index if is_same else self._find(batch, index))
            values[place] = found if change is None else change(found)
        for place, step, inputs in self._steps:
            if len(inputs) == 2:  # noqa: PLR2004 - Nearly always, and quicker.
                values[place] = step(values[inputs[0]], values[inputs[1]])
            else:
                values[place] = step(*[values[each] for each in inputs])
        return [values[each] for each in self._results]

    def _place(self, node: Node, places: dict[Node, int]) -> int:
        known = places.get(node)
        if known is not None:
            return known
        inputs = tuple(self._place(each, places) for each in node.inputs)
        place = places[node] = len(self._start)
        self._start.append(scalar(node) if node.is_literal else None)
        if node.op == "column":
            index = self._schema.get_field_index(node.detail)
            self._columns.append((place, index, _change(node, self._schema.field(index).type)))
        elif not node.is_literal:
            self._steps.append((place, kernel(node), inputs))
        return place

    def _find(self, batch: pa.RecordBatch, index: int) -> int:
        field = self._schema.field(index)
        found = batch.schema.get_field_index(field.name)
        if found < 0 or batch.schema.field(found).type != field.type:
            raise InvalidError(
                "this batch has not the column that the predicate was made for",
                column=field.name,
                type=str(field.type),
            )
        return int(found)


def _change(node: Node, stored: pa.DataType) -> Any:
    """Return what turns a column into the type in which it is calculated, if it has another."""
    if node.type is OPAQUE:
        return None
    if node.type is MAP:
        plain = pa.map_(pa.string(), pa.string())
        is_plain = stored.key_type == pa.string() and stored.item_type == pa.string()
        return None if is_plain else lambda column: column.cast(plain)
    wanted = arrow_type(node.type)
    if stored == wanted:
        return None
    if node.type is STRING and pa.types.is_dictionary(stored):
        return lambda column: column.dictionary_decode().cast(wanted)
    return lambda column: column.cast(wanted)


def constant(node: Node) -> Any:
    """Return the value of a node whose inputs are all literals; ArrowInvalid if it fails."""
    inputs = [pa.array([each.detail], arrow_type(each.type)) for each in node.inputs]
    found = kernel(node)(*inputs)
    if node.type is DATE:
        found = found.view(pa.int32())
    elif node.type in {TIMESTAMP, TIMESTAMP_NTZ}:
        found = found.view(pa.int64())
    return found[0].as_py()
