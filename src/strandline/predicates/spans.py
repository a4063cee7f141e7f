"""Intervals, and their addition to dates and times."""

import re
from typing import Final, NamedTuple

from sqlglot import exp

from strandline.predicates.building import Builder
from strandline.predicates.dialect import INTERVALS
from strandline.predicates.node import Node, literal
from strandline.predicates.sql_type import DATE, INT, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, VOID

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,9}\Z")
_DAYS: Final = {"week": 7, "day": 1}
_MONTHS: Final = {"year": 12, "month": 1}
_MICROSECONDS: Final = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_DAY_US: Final = 86_400_000_000


class Interval(NamedTuple):
    """Months, or a span of time in days and microseconds; never both."""

    months: int = 0
    days: int = 0
    microseconds: int = 0


def interval_of(make: Builder, tree: exp.Expression, at: int) -> Interval:
    """Return an interval of one unit."""
    count, unit = tree.args.get("this"), tree.args.get("unit")
    name = (unit.name if unit is not None else "").lower()
    name = name if name in INTERVALS else name.removesuffix("s")
    if name not in INTERVALS:
        make.refuse(f"an interval has one unit of {', '.join(INTERVALS)}, as in 5 DAY", at)
    sign, count = (-1, count.args["this"]) if isinstance(count, exp.Neg) else (1, count)
    digits = count.name.strip() if isinstance(count, exp.Literal) else ""
    if not _WHOLE.match(digits):
        make.refuse("an interval is a whole number of units, as in INTERVAL 5 DAY", at)
    number = sign * int(digits)
    if name in _MONTHS:
        return Interval(months=number * _MONTHS[name])
    if name in _DAYS:
        return Interval(days=number * _DAYS[name])
    return Interval(microseconds=number * _MICROSECONDS[name])


def moved(make: Builder, node: Node, by: Interval, op: str, at: int) -> Node:
    """Return a date or a time that is moved by an interval.

    The years 1 to 9999, which Python's dates and times cover, do not overflow, so this is
    treated as an operation that cannot fail.
    """
    if node.type is VARIANT:
        node = make.typed(node, TIMESTAMP)
    if node.type not in {DATE, TIMESTAMP, TIMESTAMP_NTZ, VOID}:
        make.wrong(f"an interval is added to a DATE or a TIMESTAMP, and this is {node.type}", at)
    if op == "sub":
        by = Interval(*(-each for each in by))
    if node.type is DATE and by.microseconds:
        node = make.cast(node, TIMESTAMP)
    kind = TIMESTAMP if node.type is VOID else node.type
    if by.months:
        return make.made("add_months", kind, (node,), at, by.months)
    if kind is DATE:
        return make.made("add_days", DATE, (node, literal(by.days, INT, at)), at)
    return make.made("add_us", kind, (node,), at, by.days * _DAY_US + by.microseconds)
