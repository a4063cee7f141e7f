"""Computes functions of dates and times on columns, in UTC."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.moments import civil_from_days, days_from_civil, month_days
from strandline.predicates.node import Node
from strandline.predicates.rowwise import Kernel, each_row
from strandline.predicates.sql_type import DATE, DECIMAL_SECONDS, arrow_type

_call: Final = pc.call_function
_LOCAL: Final = pa.timestamp("us")
_DAY_US: Final = 86_400_000_000
_MINUTE_US: Final = 60_000_000
_FIELDS: Final = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "iso_week",
    "day": "day",
    "doy": "day_of_year",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
# Sunday is 1.
_OF_WEEK: Final = pc.DayOfWeekOptions(count_from_zero=False, week_start=7)


def _local(moments: Any) -> Any:
    """Return times without their zone, UTC: Arrow would search for a time zone database."""
    return moments.cast(_LOCAL) if pa.types.is_timestamp(moments.type) else moments


def _trunc(node: Node) -> Kernel:
    options = pc.RoundTemporalOptions(1, node.detail, week_starts_monday=True)
    made = arrow_type(node.type)
    return lambda moments: _call("floor_temporal", [_local(moments)], options).cast(made)


def _extract(node: Node) -> Kernel:
    if node.type == DECIMAL_SECONDS:
        return each_row(lambda us: Decimal(us % _MINUTE_US).scaleb(-6), arrow_type(node.type))
    made = arrow_type(node.type)
    if node.detail == "dayofweek":
        return lambda moments: _call("day_of_week", [_local(moments)], _OF_WEEK).cast(made)
    name = _FIELDS[node.detail]
    return lambda moments: _call(name, [_local(moments)]).cast(made)


def _days(moments: Any) -> Any:
    if isinstance(moments, pa.Array):
        return moments.view(pa.int32())
    return pa.scalar(moments.value, pa.int32())


def _add_days(moments: Any, days: Any) -> Any:
    # Both wrap around at the ends of INT.
    return _call("add", [_days(moments), days]).view(pa.date32())


def _datediff(end: Any, start: Any) -> Any:
    return _call("subtract", [_days(end), _days(start)])


def _add_us(node: Node) -> Kernel:
    by, made = pa.scalar(node.detail, pa.int64()), arrow_type(node.type)
    return lambda moments: _call("add", [moments.view(pa.int64()), by]).view(made)


def _add_months(node: Node) -> Kernel:
    months = node.detail

    def days(value: int) -> int:
        year, month, day = civil_from_days(value)
        year, month = divmod(year * 12 + month - 1 + months, 12)
        return days_from_civil(year, month + 1, min(day, month_days(year, month + 1)))

    def us(value: int) -> int:
        whole, rest = divmod(value, _DAY_US)
        return days(whole) * _DAY_US + rest

    return each_row(days if node.type is DATE else us, arrow_type(node.type))


PLAIN: Final[dict[str, Kernel]] = {"add_days": _add_days, "datediff": _datediff}

BUILT: Final[dict[str, Callable[[Node], Kernel]]] = {
    "date_trunc": _trunc,
    "extract": _extract,
    "add_us": _add_us,
    "add_months": _add_months,
}
