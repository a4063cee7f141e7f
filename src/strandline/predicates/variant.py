"""Converts values of JSON to types, like Spark's `variant_get`.

Spark stores a JSON number as an integer, as a decimal if it is written without an exponent
and has up to 38 digits, and as a DOUBLE otherwise. Then it casts as usual.
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from types import NoneType
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.predicates.casting import read_text
from strandline.predicates.moments import microseconds_of_number
from strandline.predicates.sql_type import (
    BOOLEAN,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    INTEGERS,
    STRING,
    TIMESTAMP,
    SqlType,
    arrow_type,
    is_decimal,
)

_WIDE: Final = Context(prec=1100, rounding=ROUND_HALF_UP)
_BITS: Final = dict(zip(INTEGERS, (7, 15, 31, 63), strict=True))
#: For these Arrow accepts exactly the values that Spark casts unchanged; for booleans also 1.0.
_DIRECT: Final = frozenset({STRING, BOOLEAN, DOUBLE})
_WHOLE: Final = frozenset({int, type(None)})
_INEXACT: Final = frozenset({BOOLEAN, DOUBLE, DATE})
_EXACT: Final = frozenset({float, list, dict})
_DECIMAL_END: Final = 10**DIGITS_MAX
#: Spark's parser accepts numbers of up to 1,000 digits.
_READ_END: Final = 10**1000
_encode_text: Final = msgspec.json.Encoder().encode
_SHORT_EXPONENTS: Final = range(-3, 7)


class NotCastable(ValueError):  # noqa: N818
    """A value that cannot be converted to the requested type."""


class Number(str):
    """The text of a number that is not an integer."""

    __slots__ = ()


def typed(values: list[Any], exact: Callable[[], list[Any]], kind: SqlType, *, is_try: bool) -> Any:
    """Return values of JSON as a column; ArrowInvalid if one does not fit, without `is_try`.

    `exact` returns the same values with the texts of numbers; it is called if floats are
    not exact enough.
    """
    if kind in _DIRECT or (kind in INTEGERS and _WHOLE.issuperset(map(type, values))):
        try:
            return pa.array(values, arrow_type(kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass  # Values of other types, or too large.
    cast = _cast_to(kind)
    if kind not in _INEXACT and not _EXACT.isdisjoint(map(type, values)):
        values = exact()
    return pa.array([_one(value, kind, cast, is_try=is_try) for value in values], arrow_type(kind))


def typed_one(value: Any, exact: Callable[[], Any], kind: SqlType, *, is_try: bool) -> Any:
    """Do what `typed` does for one value, with dates and times as numbers."""
    if value is None or (type(value) is str and kind is STRING):
        return value
    if kind is DOUBLE and type(value) is float:
        return value
    if kind not in _INEXACT and type(value) in _EXACT:
        value = exact()
    return _one(value, kind, _cast_to(kind), is_try=is_try)


def _cast_to(kind: SqlType) -> Callable[[Any, SqlType], Any]:
    return _CASTS.get(kind) or (_decimal if is_decimal(kind) else _integer)


def _one(value: Any, kind: SqlType, cast: Callable[[Any, SqlType], Any], *, is_try: bool) -> Any:
    if value is None or (type(value) is int and abs(value) >= _READ_END):
        return None
    try:
        found = cast(_met(value), kind)
    except NotCastable as error:
        if is_try:
            return None
        raise pa.ArrowInvalid(f"a value of the payload is not a valid {kind}") from error
    return found


def _met(value: Any) -> Any:
    """Return a number as Spark stores it."""
    if type(value) is Number:
        return _decimal_or_double(value)
    if type(value) is int and not -(2**63) <= value < 2**63:
        return Decimal(value) if abs(value) < _DECIMAL_END else _nearest_double(value)
    return value


def _nearest_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _decimal_or_double(written: str) -> Decimal | float:
    if "e" in written or "E" in written:
        return float(written)
    exact = Decimal(written)
    parts = exact.as_tuple()
    scale = -int(parts.exponent)
    if scale <= DIGITS_MAX and max(len(parts.digits), scale) <= DIGITS_MAX:
        return exact
    return float(written)


# --- one value, one type ---


def _text(value: Any, _: SqlType) -> str:
    if type(value) is str:
        return value
    return json_text(value)


def _boolean(value: Any, _: SqlType) -> bool:
    if type(value) is str:
        return bool(_from_text(value, BOOLEAN))
    if type(value) in (dict, list):
        raise NotCastable
    return bool(value != 0)


def _double(value: Any, _: SqlType) -> float:
    if type(value) is str:
        return float(_from_text(value, DOUBLE))
    if type(value) in (dict, list):
        raise NotCastable
    return float(value)


def _integer(value: Any, kind: SqlType) -> int:
    if type(value) is str:
        return int(_from_text(value, kind))
    if type(value) in (dict, list):
        raise NotCastable
    bits = _BITS[kind]
    if type(value) is float and value >= 2.0**63:
        # As in Spark, in whose doubles the largest BIGINT is 2 ** 63.
        if value == 2.0**63 and bits == 63:  # noqa: PLR2004
            return 2**63 - 1
        raise NotCastable
    number = int(value)
    if not -(2**bits) <= number < 2**bits:
        raise NotCastable
    return number


def _decimal(value: Any, kind: SqlType) -> Decimal:
    if type(value) is str:
        exact = _from_text(value, kind)
    elif type(value) in (dict, list):
        raise NotCastable
    else:
        exact = Decimal(repr(value)) if type(value) is float else Decimal(value)
    rounded = _WIDE.quantize(exact, Decimal(1).scaleb(-kind.scale))
    if rounded.copy_abs() >= Decimal(10) ** (kind.precision - kind.scale):
        raise NotCastable
    return rounded


def _date(value: Any, _: SqlType) -> int:
    if type(value) is not str:
        raise NotCastable
    return int(_from_text(value, DATE))


def _timestamp(value: Any, _: SqlType) -> int:
    if type(value) is str:
        return int(_from_text(value, TIMESTAMP))
    if type(value) in (dict, list, bool):
        raise NotCastable
    found = microseconds_of_number(value)
    if found is None:
        raise NotCastable
    return found


def _from_text(text: str, kind: SqlType) -> Any:
    found = read_text(text, kind)
    if found is None:
        raise NotCastable
    return found


_CASTS: Final[dict[SqlType, Callable[[Any, SqlType], Any]]] = {
    STRING: _text,
    BOOLEAN: _boolean,
    DOUBLE: _double,
    DATE: _date,
    TIMESTAMP: _timestamp,
}


# --- as text ---


def json_text(value: Any) -> str:
    """Return a value of JSON as Spark writes a variant: sorted names, no white space."""
    value = _met(value)
    kind = type(value)
    if kind in {str, bool, NoneType}:
        return _encode_text(value).decode()
    if kind is list:
        return f"[{','.join(map(json_text, value))}]"
    if kind is dict:
        # Java compares text by UTF-16 code units.
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = ",".join(f"{json_text(name)}:{json_text(value[name])}" for name in names)
        return f"{{{members}}}"
    if kind is Decimal:
        return f"{value.normalize(_WIDE):f}" if value else "0"
    return java_double(value) if kind is float else str(value)


def java_double(value: float) -> str:
    """Return a DOUBLE as Java 19 and later write it; earlier ones wrote some with more digits."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize(_WIDE).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    minus = "-" if sign else ""
    if not value:
        return f"{minus}0.0"
    point = exponent + len(shown) - 1
    if point in _SHORT_EXPONENTS:
        whole = f"{Decimal((0, digits, exponent)):f}"
        return minus + (whole if "." in whole else f"{whole}.0")
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{point}"
