"""A scan as a lazy frame of polars, which evaluates its filters itself.

An Arrow filter would leave out NaN, which polars treats as greater than all numbers.
Polars misreads decimals of 32 and 64 bits. See design 0104.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from polars.io.plugins import register_io_source

from strandline.scans.reading import ScanRead
from strandline.values.leaf_types import with_leaves

_COMPARISONS: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    *(operator.eq, operator.lt, operator.le, operator.gt, operator.ge),
)
_NULL_TESTS: Final = ("is_null", "is_not_null")
#: The maximum number of digits in polars.
_DIGITS_MAX: Final = 38


def lazy_frame(read: ScanRead, shown: pa.Schema) -> pl.LazyFrame:
    """Return the frame: polars passes the columns and the filter that it needs."""

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 - A hint.
    ) -> Iterator[pl.DataFrame]:
        names = shown.names if with_columns is None else with_columns
        needed = {*names, *(() if predicate is None else predicate.meta.root_names())}
        schema = pa.schema([each for each in shown if each.name in needed] or [shown.field(0)])
        # The first rows are counted before they are filtered.
        wanted = None if n_rows is not None else implied_filter(predicate, schema)
        left, readable = n_rows, _for_polars(schema)
        for batch in read.batches(schema.names, wanted):
            taken = batch if left is None else batch.slice(0, left)
            frame = pl.DataFrame(taken if readable == schema else taken.cast(readable))
            left = None if left is None else left - frame.height
            found = frame if predicate is None else frame.filter(predicate)
            yield found.select(names)
            if left == 0:
                return

    empty: Any = pl.from_arrow(_for_polars(shown).empty_table())
    return register_io_source(frames, schema=empty.schema, is_pure=True)


def _for_polars(schema: pa.Schema) -> pa.Schema:
    """Return the columns with all decimals in 128 bits, also nested ones."""
    return pa.schema([each.with_type(with_leaves(each.type, _readable)) for each in schema])


def _readable(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(arrow) and arrow.precision <= _DIGITS_MAX:
        return pa.decimal128(arrow.precision, arrow.scale)
    return arrow


def implied_filter(predicate: pl.Expr | None, schema: pa.Schema) -> Any:
    """Return an Arrow expression that is true for each row that matches; None for all rows."""
    if predicate is None:
        return None
    parts = list(reversed(predicate.meta.pop()))
    if len(parts) == 1:
        return _null_test(predicate, parts[0])
    if len(parts) != 2:  # noqa: PLR2004 - The two sides of an operator.
        return None
    left, right = parts
    if predicate.meta == left & right:
        found = [implied_filter(each, schema) for each in parts]
        known = [each for each in found if each is not None]
        return known[0] & known[1] if len(known) > 1 else next(iter(known), None)
    return _comparison(predicate, left, right, schema)


def _null_test(predicate: pl.Expr, column: pl.Expr) -> Any:
    if column.meta.is_column():
        for name in _NULL_TESTS:
            if predicate.meta == getattr(column, name)():
                field = ds.field(column.meta.output_name())
                return field.is_null() if name == "is_null" else field.is_valid()
    return None


def _comparison(predicate: pl.Expr, left: pl.Expr, right: pl.Expr, schema: pa.Schema) -> Any:
    if not left.meta.is_column() or not right.meta.is_literal():
        return None
    arrow = schema.field(left.meta.output_name()).type
    is_exact = pa.types.is_integer(arrow) or pa.types.is_string(arrow)
    if not is_exact and not pa.types.is_timestamp(arrow):
        return None
    value = pl.select(right).item()
    try:
        scalar = pa.scalar(value, arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # Values of another type: polars decides how to compare them.
    if value is None or scalar.as_py() != value:
        return None
    for compare in _COMPARISONS:
        if predicate.meta == compare(left, right):
            return compare(ds.field(left.meta.output_name()), scalar)
    return None
