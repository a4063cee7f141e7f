"""Necessary conditions of matching rows, which statistics of columns can refute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from strandline.predicates.node import Node
from strandline.predicates.order import parts_of
from strandline.predicates.sql_type import DOUBLE, FLOAT, INTEGERS, arrow_type, is_decimal
from strandline.predicates.steps import spark_path

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
    """Its name; for a field of JSON the result of `field_key`."""
    comparison: Comparison
    values: tuple[Any, ...] = ()
    """The compared values: one, several after `in`, none for null tests."""
    type: pa.DataType | None = None
    """For a field of JSON: the type to which its values are converted."""


def bounds_of(node: Node) -> tuple[Bound, ...]:
    """Return some of the bounds of a predicate; none if it can fail.

    Otherwise skipping rows by them could skip the row on which it fails.
    """
    if node.can_fail:
        return ()
    # A caller that only uses bounds need not import the evaluation.
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
    if not all(each.is_literal for each in others):
        return None
    try:
        values = tuple(scalar(each).as_py() for each in others)
    except (OverflowError, ValueError):
        return None  # Python cannot represent the date.
    return _made(column, comparison, values)


def _null_test(tested: Node, comparison: Comparison) -> Bound | None:
    return _made(tested, comparison, ())


def _made(node: Node, comparison: Comparison, values: tuple[Any, ...]) -> Bound | None:
    if node.op == "column":
        return Bound(node.detail, comparison, values)
    if node.op != "try_variant_get":
        return None
    key = field_key(node)
    return None if key is None else Bound(key, comparison, values, arrow_type(node.type))


def field_key(node: Node) -> str | None:
    """Return the key of a field of JSON with one type: `payload$.amount:BIGINT`."""
    (column,) = node.inputs
    path = spark_path(node.detail)
    if column.op != "column" or path is None:
        return None
    return f"{column.detail}{path}:{node.type}"


def _uncast(node: Node) -> Node:
    """Return the input of a cast, if the cast changes no value."""
    if node.op == "cast":
        (inner,) = node.inputs
        if inner.type in INTEGERS and (node.type in INTEGERS or is_decimal(node.type)):
            return inner
        if (inner.type, node.type) == (FLOAT, DOUBLE):
            return inner
    return node
