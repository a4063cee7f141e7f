"""A predicate, parsed once, and evaluated over batches as often as one likes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.errors import PredicateEvalError
from strandline.predicates.node import Node, literal
from strandline.predicates.order import check_order, parts_of
from strandline.predicates.program import Program
from strandline.predicates.sql_type import BOOLEAN
from strandline.values import InvalidError

EVENT_COLUMNS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("headers", pa.map_(pa.string(), pa.string())),
        pa.field("occurred_at", pa.timestamp("us", tz="UTC")),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""What a topic of events offers to predicates."""

_SHARED_MAX: Final = 128


class Predicate:
    """A test of rows, made by `parse_predicate`. Immutable, and safe in any thread."""

    def __init__(self, text: str, node: Node, schema: pa.Schema) -> None:
        self._text = text
        self._node = node
        self._schema = schema
        self._is_constant = node.is_literal
        self._program = Program((node,), schema)

    @property
    def text(self) -> str:
        """The text that it was parsed from, to be parsed again elsewhere."""
        return self._text

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads, as the schema has them and in its order."""
        read = self._node.columns()
        return tuple(name for name in self._schema.names if name in read)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it matches; NULL does not.

        PredicateEvalError if a row makes it fail. InvalidError if the batch lacks a
        column of the schema that it was parsed for.
        """
        return _without_nulls(self._mask(batch))

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that match, in their order."""
        return batch.filter(self._mask(batch))

    def __repr__(self) -> str:
        return f"Predicate({self._text!r})"

    def _mask(self, batch: pa.RecordBatch) -> Any:
        if self._is_constant:
            return pa.repeat(pa.scalar(bool(self._node.detail)), batch.num_rows)
        try:
            return self._program.run(batch)[0]
        except pa.ArrowInvalid:
            return self._guarded(batch)

    @cached_property
    def _parts(self) -> list[tuple[Node, Program]]:
        return [(part, Program((part,), self._schema)) for part in parts_of(self._node)]

    def _guarded(self, batch: pa.RecordBatch) -> Any:
        """Evaluate part after part, each on the rows that those before it left."""
        rows = pa.array(range(batch.num_rows), pa.int64())
        left = batch
        for part, program in self._parts:
            if part.can_fail:
                present = _present(left, part.columns())
                rows, left = rows.filter(present), left.filter(present)
            found = self._run(program, left, rows)
            rows, left = rows.filter(found), left.filter(found)
        return pc.is_in(pa.array(range(batch.num_rows), pa.int64()), value_set=rows)

    def _run(self, program: Program, batch: pa.RecordBatch, rows: pa.Array) -> Any:
        try:
            return program.run(batch)[0]
        except pa.ArrowInvalid as error:
            if batch.num_rows == 1:
                raise PredicateEvalError(
                    row=rows[0].as_py(), text=self._text, reason=str(error)
                ) from error
        half = batch.num_rows // 2
        self._run(program, batch.slice(0, half), rows.slice(0, half))
        self._run(program, batch.slice(half), rows.slice(half))
        raise AssertionError("a batch fails, and neither half of it does")


def matches_each(predicates: Sequence[Predicate], batch: pa.RecordBatch) -> list[pa.BooleanArray]:
    """Return `matches` of each predicate, all in one pass over the batch.

    What several of them ask is computed once. The predicates were parsed for one schema,
    else InvalidError. PredicateEvalError of the first one that fails.
    """
    if not predicates:
        return []
    try:
        found = _together(tuple(predicates)).run(batch)
    except pa.ArrowInvalid:
        return [each.matches(batch) for each in predicates]
    return [
        _without_nulls(mask) if isinstance(mask, pa.Array) else each.matches(batch)
        for each, mask in zip(predicates, found, strict=True)
    ]


@lru_cache(_SHARED_MAX)
def _together(predicates: tuple[Predicate, ...]) -> Program:
    schema = predicates[0]._schema  # noqa: SLF001
    for each in predicates:
        if not each._schema.equals(schema):  # noqa: SLF001
            raise InvalidError("predicates that are evaluated together have one schema")
    return Program([each._node for each in predicates], schema)  # noqa: SLF001


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse `text` for batches of this schema; blank text matches all.

    PredicateError with the position of what is wrong: syntax, an unknown column, types
    that do not meet, a result that is not boolean. UnsupportedPredicateError for what is
    not in the dialect.
    """
    if not isinstance(text, str):
        raise InvalidError("a predicate is text", type=type(text).__name__)
    if not text.strip():
        return Predicate(text, literal(True, BOOLEAN, 0), schema)
    # sqlglot takes a while to load, and not everybody has a predicate.
    checking = import_module("strandline.predicates.checking")
    node: Node = checking.check(text, schema)
    check_order(node, text)
    return Predicate(text, node, schema)


def _without_nulls(mask: Any) -> Any:
    return pc.call_function("coalesce", [mask, _NO]) if mask.null_count else mask


def _present(batch: pa.RecordBatch, names: set[str]) -> Any:
    found = pa.repeat(pa.scalar(True), batch.num_rows)
    for name in sorted(names):
        found = pc.and_(found, batch.column(name).is_valid())
    return found


_NO: Final = pa.scalar(False)
