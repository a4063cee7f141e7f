"""A predicate, parsed once, and evaluated over any number of batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from strandline.clock import SystemClock
from strandline.predicates.node import literal
from strandline.predicates.order import check_order
from strandline.predicates.sql_type import BOOLEAN, DECLARED
from strandline.values import InvalidError
from strandline.values.arguments import check_instance, check_items, check_whole
from strandline.values.batches import check_schema
from strandline.values.names import check_text
from strandline.values.row_selection import filtered

if TYPE_CHECKING:
    from strandline.predicates.bounds import Bound
    from strandline.predicates.checking import CheckedPredicate
    from strandline.predicates.evaluation import Evaluation
    from strandline.predicates.program import Program
    from strandline.predicates.single_row import RowTest

EVENT_COLUMNS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("payload", pa.json_(), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.string())),
        pa.field("occurred_at", pa.timestamp("us", tz="UTC")),
        pa.field(
            "timestamp",
            pa.timestamp("us", tz="UTC"),
            nullable=False,
            metadata={"strandline.spark_name": "_timestamp"},
        ),
    ]
)
"""The columns of a topic of events for predicates."""

_SHARED_MAX: Final = 128


def event_columns(declared: pa.Schema | None = None) -> pa.Schema:
    """Return EVENT_COLUMNS for a topic with these declared payload fields."""
    if declared is None:
        return EVENT_COLUMNS
    at = EVENT_COLUMNS.get_field_index("payload")
    packed = {DECLARED: declared.serialize().to_pybytes()}
    return EVENT_COLUMNS.set(at, EVENT_COLUMNS.field(at).with_metadata(packed))


class Predicate:
    """A test of rows, made by `parse_predicate`. Immutable, and safe in any thread."""

    def __init__(
        self,
        text: str,
        evaluation: Evaluation,
        now_us: int,
        checked: CheckedPredicate | None = None,
    ) -> None:
        self._text = text
        self._evaluation = evaluation
        self._now_us = now_us
        self._checked = checked

    @property
    def text(self) -> str:
        """The text that it was parsed from, to be parsed again elsewhere."""
        return self._text

    @property
    def now_us(self) -> int:
        """The value of `current_timestamp` in it, in microseconds since the epoch."""
        return self._now_us

    @property
    def schema(self) -> pa.Schema:
        """The columns for which it was parsed."""
        return self._evaluation.schema

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads, spelled and ordered as in the schema."""
        read = self._evaluation.node.columns()
        return tuple(name for name in self._evaluation.schema.names if name in read)

    @property
    def row_test(self) -> RowTest | None:
        """The same for a single row, given as values; None if only batches can be evaluated."""
        found: RowTest | None = self._evaluation.row_test
        return found

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """Necessary conditions of matching rows, so that other rows need not be read."""
        found: tuple[Bound, ...] = _bounding().bounds_of(self._evaluation.node)
        return found

    @cached_property
    def spark_sql(self) -> str:
        """The same predicate for `DataFrame.where`, on the columns of `format("strandline")`.

        Paths into a payload become `try_variant_get`, times become literals, and the column
        `timestamp` of events becomes `_timestamp`. Other text is already Spark SQL.
        """
        if self._checked is None:
            return "TRUE"
        written: str = _translating().spark_sql(self._text, self._checked, self._now_us)
        return written

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it matches; NULL does not.

        PredicateEvalError if it fails on a row. InvalidError if the batch lacks a column of
        the schema for which it was parsed.
        """
        return self._evaluation.matches(check_instance("batch", batch, pa.RecordBatch))

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the matching rows, in order; raises the errors of `matches`."""
        checked = check_instance("batch", batch, pa.RecordBatch)
        return filtered(checked, self._evaluation.mask(checked))

    def __repr__(self) -> str:
        return f"Predicate({self._text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _parse_at, (self._text, self._evaluation.schema, self._now_us)


def matches_each(predicates: Sequence[Predicate], batch: pa.RecordBatch) -> list[pa.BooleanArray]:
    """Return `matches` of each predicate, all in one pass over the batch.

    Common parts are computed once. InvalidError unless the predicates were parsed for one
    schema. PredicateEvalError of the first one that fails.
    """
    each = check_items("predicates", predicates)
    for predicate in each:
        check_instance("predicates", predicate, Predicate)
    check_instance("batch", batch, pa.RecordBatch)
    if not each:
        return []
    program, evaluations = _together(tuple(each))
    found: list[pa.BooleanArray] = _evaluating().run_together(program, evaluations, batch)
    return found


@lru_cache(_SHARED_MAX)
def _together(predicates: tuple[Predicate, ...]) -> tuple[Program, list[Evaluation]]:
    evaluations = [each._evaluation for each in predicates]  # noqa: SLF001
    if not all(each.schema.equals(evaluations[0].schema) for each in evaluations):
        raise InvalidError("predicates that are evaluated together must have one schema")
    return _evaluating().together(evaluations), evaluations


def parse_predicate(text: str, schema: pa.Schema, *, now_us: int | None = None) -> Predicate:
    """Parse `text` for batches of this schema; blank text matches all.

    `current_timestamp` in it is `now_us`, in microseconds since the epoch, or the time of
    this call, and does not change.

    PredicateError with the position of the error: syntax, an unknown column, types that do
    not meet, a result that is not boolean. UnsupportedPredicateError for a form that is not
    in the dialect.
    """
    text = check_text(text, "predicate")
    check_schema(check_instance("schema", schema, pa.Schema))
    now_us = SystemClock().now_us() if now_us is None else check_whole("now_us", now_us)
    if not text.strip():
        everything = literal(value=True, kind=BOOLEAN, position=0)
        return Predicate(text, _evaluating().Evaluation(text, everything, schema), now_us)
    checked = import_module("strandline.predicates.checking").check(text, schema, now_us)
    check_order(checked.node, text)
    evaluation = _evaluating().Evaluation(text, checked.node, schema)
    return Predicate(text, evaluation, now_us, checked)


def _parse_at(text: str, schema: pa.Schema, now_us: int) -> Predicate:
    return parse_predicate(text, schema, now_us=now_us)


def check_syntax(text: str) -> None:
    """Raise the PredicateError that `parse_predicate` would raise for any schema."""
    text = check_text(text, "predicate")
    if text.strip():
        import_module("strandline.predicates.reading").read(text)


# sqlglot and Arrow's kernels load slowly, and not every program uses predicates.
@cache
def _evaluating() -> Any:
    return import_module("strandline.predicates.evaluation")


@cache
def _translating() -> Any:
    return import_module("strandline.predicates.translation")


@cache
def _bounding() -> Any:
    return import_module("strandline.predicates.bounds")
