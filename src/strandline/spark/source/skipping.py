"""The filters that Spark pushes down, as bounds that statistics can refute."""

from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from strandline.predicates.bounds import Bound, Comparison

_FILTERS: Final[dict[type[Filter], Comparison]] = {
    EqualTo: "eq",
    LessThan: "lt",
    LessThanOrEqual: "le",
    GreaterThan: "gt",
    GreaterThanOrEqual: "ge",
    In: "in",
    IsNull: "null",
    IsNotNull: "not_null",
    StringStartsWith: "prefix",
}


def filter_bound(pushed: Filter) -> Bound | None:
    """Return one of Spark's filters as a bound; None for those of other forms."""
    comparison = _FILTERS.get(type(pushed))
    attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
    if comparison is None or len(attribute) != 1:
        return None
    given: Any = getattr(pushed, "value", None)
    values = {"in": lambda: tuple(given), "null": tuple, "not_null": tuple}
    return Bound(attribute[0], comparison, values.get(comparison, lambda: (given,))())
