"""What each matching row meets at least, in a form that statistics of columns can refute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from strandline.predicates.node import Node
from strandline.predicates.order import parts_of
from strandline.predicates.sql_type import DOUBLE, FLOAT, INTEGERS, is_decimal

Comparison = Literal["eq", "lt", "le", "gt", "ge", "in", "null", "not_null", "prefix"]

_COMPARISONS: Final[dict[str, Comparison]] = {
    "eq": "eq",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "in": "in",
    "startswith": "prefix",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison of a column that every matching row meets, as Spark compares."""

    column: str
    comparison: Comparison
    values: tuple[Any, ...] = ()
    """What it is compared with: one value, several after `in`, none for null tests."""


def bounds_of(node: Node) -> tuple[Bound, ...]:
    """Return bounds of a predicate, which may be fewer than it has; none if it can fail.

    Skipping rows by them would otherwise skip the row that makes it fail.
    """
    if node.can_fail:
        return ()
    # A caller that only has bounds need not load what evaluates them.
    from strandline.predicates.kernels import scalar  # noqa: PLC0415

    found = (_bound(part, scalar) for part in parts_of(node))
    return tuple(each for each in found if each is not None)


def _bound(part: Node, scalar: Callable[[Node], Any]) -> Bound | None:
    if part.op == "is_null":
        return _null_test(part.inputs[0], "null")
    if part.op == "not" and part.inputs[0].op == "is_null":
        return _null_test(part.inputs[0].inputs[0], "not_null")
    comparison = _COMPARISONS.get(part.op)
    if comparison is None:
        return None
    column, *others = _uncast(part.inputs[0]), *part.inputs[1:]
    if column.op != "column" or not all(each.is_literal for each in others):
        return None
    try:
        values = tuple(scalar(each).as_py() for each in others)
    except (OverflowError, ValueError):
        return None  # Python has no such date.
    return Bound(column.detail, comparison, values)


def _null_test(tested: Node, comparison: Comparison) -> Bound | None:
    return Bound(tested.detail, comparison) if tested.op == "column" else None


def _uncast(node: Node) -> Node:
    """Return what was cast, if the cast changes no value."""
    if node.op == "cast":
        (inner,) = node.inputs
        if inner.type in INTEGERS and (node.type in INTEGERS or is_decimal(node.type)):
            return inner
        if (inner.type, node.type) == (FLOAT, DOUBLE):
            return inner
    return node
