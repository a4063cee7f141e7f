"""Casts of Spark in ANSI mode: which can fail, and their results.

Each works on a whole array. ArrowInvalid if a value does not fit; with `is_try` such a
value becomes NULL.
"""

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.moments import days_in, microseconds_in
from strandline.predicates.sql_type import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATS,
    INTEGERS,
    STRING,
    TIMESTAMP,
    SqlType,
    arrow_type,
    as_decimal,
    is_decimal,
)

Kernel = Callable[[pa.Array], pa.Array]

_BITS: Final = dict(zip(INTEGERS, (7, 15, 31, 63), strict=True))
_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
# Characters that Java's String.trim removes for numbers, and that Spark removes elsewhere.
_CONTROL: Final = "".join(map(chr, range(33)))
_SPACE: Final = _CONTROL + "\x7f"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?\Z")
# Java accepts the digits of any script, and so does Python.
_EXACT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?\Z")
_EXPONENT_MAX: Final = 400
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?\Z"
)
_NAMED: Final = {
    "inf": float("inf"),
    "+inf": float("inf"),
    "infinity": float("inf"),
    "+infinity": float("inf"),
    "-inf": float("-inf"),
    "-infinity": float("-inf"),
    "nan": float("nan"),
}
_WIDE: Final = Context(prec=900, rounding=ROUND_HALF_UP)
_ALL: Final = pc.ScalarAggregateOptions(skip_nulls=True, min_count=0)
_DIGITS_MAX: Final = 19
_JAVA_NAMED: Final = {"+NaN": float("nan"), "-NaN": float("nan")}


def can_fail(source: SqlType, target: SqlType) -> bool:
    """Return whether there is a value that does not fit."""
    if source is STRING:
        return target is not STRING
    if target in INTEGERS:
        if source in INTEGERS:
            return _BITS[target] < _BITS[source]
        if is_decimal(source):
            return source.precision - source.scale >= as_decimal(target).precision - (
                1 if target is BIGINT else 0
            )
        return source in FLOATS
    if is_decimal(target) and (source in INTEGERS or is_decimal(source)):
        held = as_decimal(source)
        # Rounding may need one more digit.
        whole = held.precision - held.scale + (held.scale > target.scale)
        return whole > target.precision - target.scale
    return False


def caster(source: SqlType, target: SqlType, *, is_try: bool) -> Kernel:
    """Return the function that casts an array from one type to the other."""
    made = arrow_type(target)
    if source is STRING:
        return _from_text(target, is_try=is_try)
    if is_decimal(source) and target in {DOUBLE, STRING}:
        return _each(float if target is DOUBLE else _plain, made)
    if is_decimal(target):
        return _to_decimal(source, target, is_try=is_try)
    if target in INTEGERS and can_fail(source, target):
        narrowed = _narrower if source in INTEGERS else _to_integer
        return narrowed(source, target, is_try=is_try)
    return _plain_cast(target)


def _plain_cast(target: SqlType) -> Kernel:
    made = arrow_type(target)
    if target is BOOLEAN:
        return lambda values: pc.call_function("not_equal", [values, pa.scalar(0, values.type)])
    if target is DATE:
        # UTC is removed first, because Arrow would search for a time zone database.
        return lambda values: values.cast(pa.timestamp("us")).cast(made, safe=False)
    return lambda values: values.cast(made, safe=False)


def _plain(value: Decimal) -> str:
    return f"{value:f}"


def _each(convert: Callable[[Any], Any], made: pa.DataType) -> Kernel:
    def cast(values: pa.Array) -> pa.Array:
        return pa.array(
            [None if value is None else convert(value) for value in values.to_pylist()], made
        )

    return cast


def _kept(values: pa.Array, fits: pa.Array, *, is_try: bool) -> pa.Array:
    """Return values that do not fit as NULL with `is_try`; otherwise raise ArrowInvalid."""
    if not is_try and pc.call_function("all", [fits], _ALL).as_py() is False:
        raise pa.ArrowInvalid("a value does not fit the type that it is cast to")
    return pc.call_function("if_else", [fits, values, pa.scalar(None, values.type)])


def _narrower(source: SqlType, target: SqlType, *, is_try: bool) -> Kernel:
    made, bits = arrow_type(target), _BITS[target]
    least = pa.scalar(-(2**bits), arrow_type(source))
    most = pa.scalar(2**bits - 1, arrow_type(source))

    def cast(values: pa.Array) -> pa.Array:
        if not is_try:
            return values.cast(made)
        fits = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
        return _kept(values, fits, is_try=True).cast(made)

    return cast


def _to_integer(source: SqlType, target: SqlType, *, is_try: bool) -> Kernel:
    made, bits = arrow_type(target), _BITS[target]
    if is_decimal(source):
        return _decimal_to_integer(made, bits, is_try=is_try)
    # Spark compares as doubles, where the largest BIGINT is 2 ** 63.
    most = pa.scalar(float(2**bits - 1))
    least = pa.scalar(-float(2**bits))

    def cast(values: pa.Array) -> pa.Array:
        whole = pc.trunc(values.cast(pa.float64()))
        fits = pc.and_(pc.greater_equal(whole, least), pc.less_equal(whole, most))
        kept = _kept(whole, fits, is_try=is_try)
        if target is not BIGINT:
            return kept.cast(made)
        too_large = pc.greater_equal(kept, most)
        safe = pc.if_else(too_large, pa.scalar(0.0), kept).cast(made)
        return pc.if_else(too_large, pa.scalar(2**63 - 1), safe)

    return cast


def _decimal_to_integer(made: pa.DataType, bits: int, *, is_try: bool) -> Kernel:
    def one(value: Any) -> int | None:
        number = int(value)
        if -(2**bits) <= number < 2**bits:
            return number
        if is_try:
            return None
        raise pa.ArrowInvalid("a number does not fit the type that it is cast to")

    return _each(one, made)


def _to_decimal(source: SqlType, target: SqlType, *, is_try: bool) -> Kernel:
    made, held = arrow_type(target), as_decimal(source)
    if not can_fail(source, target) and held.scale <= target.scale:
        return lambda values: values.cast(made)
    limit = Decimal(10) ** (target.precision - target.scale)
    step = Decimal(1).scaleb(-target.scale)

    def one(value: Any) -> Decimal | None:
        exact = Decimal(value)
        rounded = _WIDE.quantize(exact, step) if target.scale < held.scale else exact
        if rounded.copy_abs() < limit:
            return rounded
        if is_try:
            return None
        raise pa.ArrowInvalid("a number does not fit the decimal that it is cast to")

    return _each(one, made)


def _from_text(target: SqlType, *, is_try: bool) -> Kernel:
    def one(text: str) -> Any:
        value = read_text(text, target)
        if value is None and not is_try:
            raise pa.ArrowInvalid(f"a text is not a valid {target}")
        return value

    return _each(one, arrow_type(target))


def read_text(text: str, target: SqlType) -> Any:
    """Return the value of a text, days and microseconds as numbers; None if there is none."""
    if target in {DATE, TIMESTAMP}:
        return days_in(text) if target is DATE else microseconds_in(text)
    if is_decimal(target):
        return _read_decimal(text, target)
    if target is BOOLEAN:
        word = text.strip(_SPACE).lower()
        return True if word in _TRUE else False if word in _FALSE else None
    if target in INTEGERS:
        digits = text.strip(_SPACE)
        if not _INTEGER.match(digits) or len(digits.lstrip("+-0")) > _DIGITS_MAX:
            return None
        number = int(digits)
        return number if -(2 ** _BITS[target]) <= number < 2 ** _BITS[target] else None
    return _read_double(text)


def _read_decimal(text: str, target: SqlType) -> Decimal | None:
    digits = text.strip(_CONTROL)
    if not _EXACT.match(digits):
        return None
    exact = Decimal(digits)
    if not -_EXPONENT_MAX < exact.adjusted() < _EXPONENT_MAX:
        return None if exact else Decimal(0)
    rounded = _WIDE.quantize(exact, Decimal(1).scaleb(-target.scale))
    return (
        rounded if rounded.copy_abs() < Decimal(10) ** (target.precision - target.scale) else None
    )


def _read_double(text: str) -> float | None:
    digits = text.strip(_CONTROL)
    if _NUMBER.match(digits):
        return float(digits.rstrip("fFdD"))
    if _HEXADECIMAL.match(digits):
        try:
            return float.fromhex(digits.rstrip("fFdD"))
        except OverflowError:
            return float("-inf") if digits.startswith("-") else float("inf")
    if digits in _JAVA_NAMED:
        return _JAVA_NAMED[digits]
    return _NAMED.get(digits.lower())
