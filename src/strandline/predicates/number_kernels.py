"""Computes operations on numbers on columns."""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from math import ceil, floor, fmod, isfinite, isinf, isnan, nan
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.node import Node
from strandline.predicates.rowwise import Kernel, each_row
from strandline.predicates.sql_type import (
    DIGITS_MAX,
    FLOATS,
    INTEGERS,
    arrow_type,
    is_decimal,
)

_call: Final = pc.call_function
_ARITHMETIC: Final = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}
_BITS: Final = {"bit_and": "and", "bit_or": "or", "bit_xor": "xor", "bit_not": "not"}
_WIDE: Final = Context(prec=800, rounding=ROUND_HALF_UP)
_LONG_MAX: Final = 2**63 - 1


def _arithmetic(node: Node) -> Kernel:
    if node.op == "div" and is_decimal(node.type):
        return _quotient(node)
    name = node.op if node.op == "abs" else "negate" if node.op == "neg" else _ARITHMETIC[node.op]
    if node.type in INTEGERS or node.op == "div":
        name += "_checked"
    return lambda *inputs: _call(name, list(inputs))


def _quotient(node: Node) -> Kernel:
    step = Decimal(1).scaleb(-node.type.scale)
    fine = Decimal(1).scaleb(-DIGITS_MAX)

    def divided(a: Decimal, b: Decimal) -> Decimal:
        if not b:
            raise pa.ArrowInvalid("divide by zero")
        # Spark rounds twice: to its maximum number of digits, then to those of the result.
        exact = _WIDE.divide(a, b)
        return _WIDE.quantize(_WIDE.quantize(exact, fine), step)

    return each_row(divided, arrow_type(node.type))


def _mod(node: Node) -> Kernel:
    return each_row(_fmod, arrow_type(node.type)) if node.type in FLOATS else _remainder


def _fmod(a: float, b: float) -> float:
    if not b:
        raise pa.ArrowInvalid("divide by zero")
    return nan if isinf(a) else fmod(a, b)


def _remainder(a: Any, b: Any) -> Any:
    # Modulo -1 is 0, like modulo 1, without an overflow on the smallest number.
    one, minus_one = pa.scalar(1, b.type), pa.scalar(-1, b.type)
    divisor = _call("if_else", [_call("equal", [b, minus_one]), one, b])
    whole = _call("divide_checked", [a, divisor])
    return _call("subtract", [a, _call("multiply", [whole, divisor])])


def _bits(node: Node) -> Kernel:
    name = f"bit_wise_{_BITS[node.op]}"
    return lambda *inputs: _call(name, list(inputs))


def _round(node: Node) -> Kernel:
    step = Decimal(1).scaleb(-node.detail)

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            # Based on the displayed digits, as in Spark: 2.675 becomes 2.68.
            return float(_WIDE.quantize(Decimal(repr(value)), step)) if isfinite(value) else value
        return _WIDE.quantize(value, step)

    return each_row(rounded, arrow_type(node.type))


def _whole(node: Node) -> Kernel:
    """Return floor or ceil: a decimal for a decimal, a BIGINT for a DOUBLE."""
    whole, rounding = (floor, ROUND_FLOOR) if node.op == "floor" else (ceil, ROUND_CEILING)

    def of_decimal(value: Decimal) -> Decimal:
        return value.quantize(Decimal(1), rounding, _WIDE)

    def of_double(value: float) -> int:
        if isnan(value):
            return 0
        if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
            raise pa.ArrowInvalid("overflow")
        return min(_LONG_MAX, whole(value))

    return each_row(of_decimal if is_decimal(node.type) else of_double, arrow_type(node.type))


BUILT: Final[dict[str, Callable[[Node], Kernel]]] = {
    **dict.fromkeys((*_ARITHMETIC, "neg", "abs"), _arithmetic),
    **dict.fromkeys(_BITS, _bits),
    "mod": _mod,
    "round": _round,
    "floor": _whole,
    "ceil": _whole,
}
