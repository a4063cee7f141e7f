"""Decides which bounds of a predicate are refuted by the statistics of a row group."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from strandline.predicates.bounds import Bound
from strandline.tiering.footer import ColumnStatistics, Footer


def refutes_group(footer: Footer, group: int, bound: Bound, arrow: pa.DataType) -> bool:
    """Whether no row of a group can meet the bound; `arrow` is the type that readers get."""
    if bound.type is None:
        known = footer.statistics(group, bound.column)
    else:
        known = footer.field_statistics(group, bound.column, bound.type)
    return known is not None and refutes(known, bound, arrow)


def refutes(known: ColumnStatistics, bound: Bound, arrow: pa.DataType) -> bool:
    """Whether no row of such a column can meet the bound; `arrow` is the type for readers."""
    if bound.comparison == "null":
        return known.nulls == 0
    if known.is_null or bound.comparison == "not_null":
        return known.is_null
    family = _family(arrow)
    if family is None or family != _family(known.type) or known.low is None:
        return False
    values = [value for value in bound.values if value is not None]
    if not values or not all(_COMPARABLE[family](value) for value in values):
        return False
    return all(_is_outside(known, bound.comparison, value, family) for value in values)


def _is_outside(known: ColumnStatistics, comparison: str, value: Any, family: str) -> bool:
    low, high = known.low, known.high
    if comparison in ("eq", "in"):
        return bool(value < low or value > high)
    if comparison == "lt":
        return bool(low >= value)
    if comparison == "le":
        return bool(low > value)
    if comparison == "prefix":
        return bool(high < value or (low > value and not low.startswith(value)))
    if family == "float" and known.nans != 0:
        return False  # NaN is greater than all numbers, and is not part of the bounds.
    return bool(high <= value if comparison == "gt" else high < value)


# --- what may be compared ---


def _family(arrow: pa.DataType) -> str | None:
    """Return the family of a column's values; None if its statistics are not used."""
    types = pa.types
    if types.is_dictionary(arrow):
        return _family(arrow.value_type)
    if types.is_timestamp(arrow):
        if arrow.unit == "ns":
            return None  # Python's times have a lower resolution.
        return "time" if arrow.tz is not None else "local_time"
    for is_one, family in _FAMILIES:
        if is_one(arrow):
            return family
    return None


_FAMILIES: Final[Sequence[tuple[Callable[[pa.DataType], bool], str]]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "integer"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "float"),
    (pa.types.is_decimal128, "decimal"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_date32, "date"),
)


def _is_exact(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, int) and not isinstance(value, bool)


_COMPARABLE: Final[dict[str, Callable[[Any], bool]]] = {
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_exact,
    # There may be NaN values: a comparison with NaN is never outside the bounds.
    "float": lambda value: isinstance(value, float),
    "decimal": _is_exact,
    "text": lambda value: isinstance(value, str),
    "date": lambda value: isinstance(value, date) and not isinstance(value, datetime),
    "time": lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    "local_time": lambda value: isinstance(value, datetime) and value.tzinfo is None,
}
