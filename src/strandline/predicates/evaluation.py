"""Evaluates a predicate over a batch, and finds the row on which it fails."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.errors import PredicateEvalError
from strandline.predicates.node import Node
from strandline.predicates.order import parts_of
from strandline.predicates.program import Program
from strandline.predicates.single_row import RowTest, row_test
from strandline.values.row_selection import filtered

_NO: Final = pa.scalar(False)
_ONE_MATCHES: Final = pa.array([True])
_NONE_MATCHES: Final = pa.array([False])


class Evaluation:
    """One predicate, ready to run over batches of its schema."""

    def __init__(self, text: str, node: Node, schema: pa.Schema) -> None:
        self.node = node
        self.schema = schema
        self._text = text
        self._is_constant = node.is_literal
        self._program = Program((node,), schema)

    @cached_property
    def row_test(self) -> RowTest | None:
        """The same for one row; None if only batches can be evaluated."""
        return row_test(self.node, self.schema)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Implements `Predicate.matches`."""
        if batch.num_rows == 1:
            return _ONE_MATCHES if self._matches_one(batch) else _NONE_MATCHES
        return _without_nulls(self.mask(batch))

    def _matches_one(self, batch: pa.RecordBatch) -> bool | None:
        """Return whether the only row of a batch matches."""
        test = self.row_test
        if test is not None and batch.schema.equals(self.schema):
            with suppress(pa.ArrowInvalid):
                return test.matches_batch(batch)
        found: bool | None = self.mask(batch)[0].as_py()
        return found

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return the same with NULLs, which a filter drops."""
        if self._is_constant:
            return pa.repeat(pa.scalar(bool(self.node.detail)), batch.num_rows)
        try:
            return self._program.run(batch)[0]
        except pa.ArrowInvalid:
            return self._guarded(batch)

    @cached_property
    def _parts(self) -> list[tuple[Node, Program]]:
        return [(part, Program((part,), self.schema)) for part in parts_of(self.node)]

    def _guarded(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Evaluate the parts in order, each on the rows that the earlier parts left."""
        every = rows = pa.array(range(batch.num_rows), pa.int64())
        left = batch
        for part, program in self._parts:
            if part.can_fail:
                present = _present(left, part.columns())
                rows, left = rows.filter(present), filtered(left, present)
            found = self._run(program, left, rows)
            rows, left = rows.filter(found), filtered(left, found)
        return pc.is_in(every, value_set=rows)

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


def together(evaluations: Sequence[Evaluation]) -> Program:
    """Return a program that evaluates all of them at once."""
    return Program([each.node for each in evaluations], evaluations[0].schema)


def run_together(
    program: Program, evaluations: Sequence[Evaluation], batch: pa.RecordBatch
) -> list[pa.BooleanArray]:
    """Return `matches` of each predicate of the program."""
    try:
        found = program.run(batch)
    except pa.ArrowInvalid:
        return [each.matches(batch) for each in evaluations]
    return [
        _without_nulls(mask) if isinstance(mask, pa.Array) else each.matches(batch)
        for each, mask in zip(evaluations, found, strict=True)
    ]


def _without_nulls(mask: Any) -> Any:
    return pc.call_function("coalesce", [mask, _NO]) if mask.null_count else mask


def _present(batch: pa.RecordBatch, names: set[str]) -> Any:
    found = pa.repeat(pa.scalar(True), batch.num_rows)
    for name in sorted(names):
        found = pc.and_(found, batch.column(name).is_valid())
    return found
