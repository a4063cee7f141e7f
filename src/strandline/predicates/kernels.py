"""Computes each operation on columns, with the results of Spark."""

from collections.abc import Callable
from math import isnan
from operator import and_, or_
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates import nested_kernels, number_kernels, text_kernels, time_kernels
from strandline.predicates.casting import caster
from strandline.predicates.nested_kernels import LOOKS
from strandline.predicates.node import Node
from strandline.predicates.rowwise import Kernel
from strandline.predicates.sql_type import FLOATS, arrow_type

__all__ = ["LOOKS", "kernel", "scalar"]

_call: Final = pc.call_function
_from_bytes: Final = int.from_bytes
_from_buffers: Final = pa.Array.from_buffers
_py_buffer: Final = pa.py_buffer
_Mask: Final = pa.BooleanArray
_BOOLEAN: Final = pa.bool_()
_SHORT_MAX: Final = 8192
_COMPARE: Final = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
# With NaN above all numbers, `a > b` is `NOT a <= b`, for which the kernel is correct.
_OPPOSITE: Final = {"gt": "less_equal", "ge": "less"}


def kernel(node: Node) -> Kernel:
    """Return the kernel that computes a node from its inputs."""
    plain = _PLAIN.get(node.op)
    return plain if plain is not None else _BUILT[node.op](node)


def scalar(node: Node) -> pa.Scalar:
    """Return the value of a literal."""
    return pa.scalar(node.detail, arrow_type(node.type))


# --- comparing ---


def _comparison(node: Node) -> Kernel:
    op, right = node.op, node.inputs[1]
    name = _COMPARE[op]
    if node.inputs[0].type not in FLOATS or (op == "ne" and _is_number(right)):
        return lambda a, b: _call(name, [a, b])
    if _is_number(right):
        if op in _OPPOSITE:
            opposite = _OPPOSITE[op]
            return lambda a, b: _call("invert", [_call(opposite, [a, b])])
        return lambda a, b: _call(name, [a, b])
    return _BETWEEN_FLOATS[op]


def _is_number(node: Node) -> bool:
    return node.is_literal and not isnan(node.detail)


def _equal_floats(a: Any, b: Any) -> Any:
    both = _call("and", [_call("is_nan", [a]), _call("is_nan", [b])])
    return _call("or", [_call("equal", [a, b]), both])


def _less_floats(a: Any, b: Any) -> Any:
    only_b = _call("and_not", [_call("is_nan", [b]), _call("is_nan", [a])])
    return _call("or", [_call("less", [a, b]), only_b])


def _not(of: Kernel) -> Kernel:
    return lambda *inputs: _call("invert", [of(*inputs)])


def _greater_floats(a: Any, b: Any) -> Any:
    return _less_floats(b, a)


_BETWEEN_FLOATS: Final = {
    "eq": _equal_floats,
    "ne": _not(_equal_floats),
    "lt": _less_floats,
    "ge": _not(_less_floats),
    "gt": _greater_floats,
    "le": _not(_greater_floats),
}


def _membership(node: Node) -> Kernel:
    value, *choices = node.inputs
    is_float = value.type in FLOATS
    # Sets distinguish -0.0 from 0.0, which adding 0.0 makes the same, here and below.
    given = [
        each.detail + 0.0 if is_float else each.detail
        for each in choices
        if each.detail is not None
    ]
    has_null = len(given) < len(choices)
    made = arrow_type(value.type)
    options = pc.SetLookupOptions(pa.array(given, made), skip_nulls=True)
    zero = pa.scalar(0.0, made) if is_float else None
    missing = pa.scalar(None, pa.bool_())

    def among(values: pa.Array, *_: Any) -> pa.Array:
        looked = _call("add", [values, zero]) if is_float else values
        found = _call("is_in", [looked], options)
        if has_null:
            return _call("if_else", [found, found, missing])
        if values.null_count:
            return _call("if_else", [_call("is_null", [values]), missing, found])
        return found

    return among


# --- logic ---


def _all_of(a: Any, b: Any, *others: Any) -> Any:
    found = _joined(a, b, "and_kleene", and_)
    for each in others:
        found = _joined(found, each, "and_kleene", and_)
    return found


def _any_of(a: Any, b: Any, *others: Any) -> Any:
    found = _joined(a, b, "or_kleene", or_)
    for each in others:
        found = _joined(found, each, "or_kleene", or_)
    return found


def _joined(a: Any, b: Any, name: str, join: Callable[[int, int], int]) -> Any:
    """Join two masks: as numbers if they are short, which costs less than to call a kernel."""
    if type(a) is type(b) is _Mask and not a.offset and not b.offset and len(a) <= _SHORT_MAX:
        (a_nulls, a_bits), (b_nulls, b_bits) = a.buffers(), b.buffers()
        if a_nulls is None is b_nulls:
            bits = join(_from_bytes(a_bits, "little"), _from_bytes(b_bits, "little"))
            stored = bits.to_bytes(max(a_bits.size, b_bits.size), "little")
            return _from_buffers(_BOOLEAN, len(a), [None, _py_buffer(stored)], 0)
    return _call(name, [a, b])


def _fill(found: Any) -> Any:
    return _call("coalesce", [found, _NO])


_NO: Final = pa.scalar(False)


def _cast(node: Node) -> Kernel:
    return caster(node.inputs[0].type, node.type, is_try=node.op == "try_cast")


_PLAIN: Final[dict[str, Kernel]] = {
    "and": _all_of,
    "or": _any_of,
    "not": lambda a: _call("invert", [a]),
    "is_null": lambda a: _call("is_null", [a]),
    "is_true": _fill,
    "is_false": lambda a: _fill(_call("invert", [a])),
    **text_kernels.PLAIN,
    **time_kernels.PLAIN,
    **nested_kernels.PLAIN,
}

_BUILT: Final[dict[str, Callable[[Node], Kernel]]] = {
    **dict.fromkeys(_COMPARE, _comparison),
    "cast": _cast,
    "try_cast": _cast,
    "in": _membership,
    **text_kernels.BUILT,
    **number_kernels.BUILT,
    **time_kernels.BUILT,
    **nested_kernels.BUILT,
}
