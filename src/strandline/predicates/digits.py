"""Numeric literals: their types, and the types that can hold them."""

import re
from decimal import Decimal
from math import isfinite
from typing import Final

from strandline.predicates.sql_type import (
    BIGINT,
    DIGITS_MAX,
    DOUBLE,
    INT,
    SqlType,
    arrow_type,
    decimal,
)

_INTEGER: Final = re.compile(r"[0-9]+\Z")
_DECIMAL: Final = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)\Z")
_DOUBLE: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+\Z")


def number_of(sign: str, digits: str) -> tuple[object, SqlType] | None:
    """Return the value and its type; None for unsupported or too large literals."""
    if _INTEGER.match(digits) and len(digits) <= DIGITS_MAX:
        number = int(sign + digits)
        for kind in (INT, BIGINT):
            if holds(kind, number):
                return number, kind
        return Decimal(number), decimal(len(str(abs(number))), 0)
    if _DECIMAL.match(digits):
        exact = Decimal(sign + digits)
        scale = -int(exact.as_tuple().exponent)
        precision = max(len(exact.as_tuple().digits), scale)
        return (exact, decimal(precision, scale)) if precision <= DIGITS_MAX else None
    if _DOUBLE.match(digits) and isfinite(value := float(sign + digits)):
        return value, DOUBLE
    return None


def holds(kind: SqlType, number: int | Decimal) -> bool:
    """Whether an integer type can hold a number."""
    bits = arrow_type(kind).bit_width - 1
    return bool(-(2**bits) <= number < 2**bits)
