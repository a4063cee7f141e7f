"""Predicates prepared for evaluation: each column and each distinct operation once."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strandline.predicates.kernels import LOOKS, kernel, scalar
from strandline.predicates.node import Node
from strandline.predicates.shredding import Shredder
from strandline.predicates.sql_type import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    arrow_type,
    conversion,
)
from strandline.predicates.steps import Path
from strandline.values import InvalidError


class Program:
    """Computes several nodes over one batch."""

    __slots__ = ("_changes", "_columns", "_results", "_schema", "_start", "_steps")

    def __init__(self, nodes: Sequence[Node], schema: pa.Schema) -> None:
        self._schema = schema
        self._start: list[Any] = []
        self._columns: list[tuple[int, int, Any]] = []
        self._steps: list[tuple[int, Any, tuple[int, ...]]] = []
        self._changes = _shredders(nodes)
        places: dict[Node, int] = {}
        self._results = [self._place(node, places) for node in nodes]

    def run(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the column of each node over `batch`; ArrowInvalid if a row fails."""
        values = self._start.copy()
        column = batch.column
        is_same = batch.schema.equals(self._schema)
        for place, index, change in self._columns:
            found = column(index if is_same else self._find(batch, index))
            values[place] = found if change is None else change(found)
        for place, step, inputs in self._steps:
            if len(inputs) == 2:  # noqa: PLR2004 - The usual case, and faster.
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
            change: Any = self._changes.get(node.detail)
            if change is None:
                change = conversion(node.type, self._schema.field(index).type)
            self._columns.append((place, index, change))
        elif not node.is_literal:
            self._steps.append((place, kernel(node), inputs))
        return place

    def _find(self, batch: pa.RecordBatch, index: int) -> int:
        field = self._schema.field(index)
        found = batch.schema.get_field_index(field.name)
        if found < 0 or batch.schema.field(found).type != field.type:
            raise InvalidError(
                "this batch lacks a column of the predicate",
                column=field.name,
                type=str(field.type),
            )
        return int(found)


def _shredders(nodes: Sequence[Node]) -> dict[str, Shredder]:
    """Return for each column of JSON a parser of all paths into it."""
    paths: dict[str, dict[Path, None]] = {}
    for each in (inner for node in nodes for inner in node.walk()):
        if each.op in LOOKS and each.inputs[0].op == "column":
            paths.setdefault(each.inputs[0].detail, {})[each.detail] = None
    return {column: Shredder(found) for column, found in paths.items()}


def constant(node: Node) -> Any:
    """Return the value of a node whose inputs are all literals; ArrowInvalid if it fails."""
    inputs = [pa.array([each.detail], arrow_type(each.type)) for each in node.inputs]
    found = kernel(node)(*inputs)
    if node.type is DATE:
        found = found.view(pa.int32())
    elif node.type in {TIMESTAMP, TIMESTAMP_NTZ}:
        found = found.view(pa.int64())
    return found[0].as_py()
