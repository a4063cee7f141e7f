"""Skips what cannot hold a selected row, by the statistics of objects in the tier."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Self, cast

import pyarrow as pa

from strandline.log import Log, parts_of
from strandline.predicates.bounds import Bound
from strandline.scans.sieve import Sieve
from strandline.tiering import Tier
from strandline.tiering.footer import ColumnStatistics, Footer
from strandline.values import Topic, TrimmedError


@dataclass(frozen=True, slots=True)
class Skipping:
    """Bounds that every wanted row meets, on columns as they are stored, with their types."""

    bounds: tuple[tuple[Bound, pa.DataType], ...] = ()
    #: An Arrow expression that they meet as well, and the columns that it is of.
    arrow_filter: tuple[Any, pa.Schema] | None = None

    def and_also(self, bounds: Iterable[Bound], stored: Callable[[str], pa.Field | None]) -> Self:
        """Return the same with more bounds; `stored` returns how a column is stored, if it is."""
        found = [(bound, stored(bound.column)) for bound in bounds]
        new = [
            (replace(bound, column=field.name), field.type)
            for bound, field in found
            if field is not None
        ]
        return replace(self, bounds=(*self.bounds, *new))

    def kept(
        self, log: Log, place: tuple[Topic, int], start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the runs of [start, end) that may hold a wanted row, in order.

        Only of what the tier alone has anything is known; the rest is kept.
        """
        begun = start
        tier = cast("Tier | None", parts_of(log).tier)
        if tier is None or not (self.bounds or self.arrow_filter):
            yield from [(start, end)] if start < end else ()
            return
        for first, following in self._skipped(tier, place, start, end):
            if begun < first:
                yield begun, first
            begun = following
        if begun < end:
            yield begun, end

    def _skipped(
        self, tier: Tier, place: tuple[Topic, int], start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        try:
            for first, stop, footer in tier.footers(*place, start, end):
                for group_start, group_end in self._excluded(footer):
                    run = max(first, group_start), min(stop, group_end)
                    if run[0] < run[1]:
                        yield run
        except TrimmedError:
            return  # Overtaken; reading raises, or goes on.

    def _excluded(self, footer: Footer | None) -> Iterator[tuple[int, int]]:
        if footer is None:
            return
        meeting = None
        if self.arrow_filter is not None:
            meeting = footer.groups_meeting(*self.arrow_filter)
        for index, run in enumerate(footer.groups):
            if (meeting is not None and index not in meeting) or self._refuted(footer, index):
                yield run

    def _refuted(self, footer: Footer, group: int) -> bool:
        for bound, arrow in self.bounds:
            known = footer.statistics(group, bound.column)
            if known is not None and refutes(known, bound, arrow):
                return True
        return False


def stored_bounds(sieve: Sieve, stored: pa.Schema) -> Skipping:
    """Return the bounds of a sieve's predicate on columns as the log calls them."""
    if sieve.predicate is None:
        return Skipping()
    bounds = [replace(each, column=sieve.stored_as(each.column)) for each in sieve.predicate.bounds]

    def field(name: str) -> pa.Field | None:
        return stored.field(name) if name in stored.names else None

    return Skipping().and_also(bounds, field)


def refutes(known: ColumnStatistics, bound: Bound, arrow: pa.DataType) -> bool:
    """Whether no row of such a column can meet the bound; `arrow` is what the reader sees."""
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
    if family == "float":
        return False  # A NaN is greater than all numbers, and statistics leave it out.
    return bool(high <= value if comparison == "gt" else high < value)


# --- what may be compared ---


def _family(arrow: pa.DataType) -> str | None:
    """Return which values a column has; None for those whose statistics are not looked at."""
    types = pa.types
    if types.is_dictionary(arrow):
        return _family(arrow.value_type)
    if types.is_timestamp(arrow):
        if arrow.unit == "ns":
            return None  # Python's times are coarser.
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
    # A NaN may be among them: whatever is compared with it is not outside.
    "float": lambda value: isinstance(value, float),
    "decimal": _is_exact,
    "text": lambda value: isinstance(value, str),
    "date": lambda value: isinstance(value, date) and not isinstance(value, datetime),
    "time": lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    "local_time": lambda value: isinstance(value, datetime) and value.tzinfo is None,
}
