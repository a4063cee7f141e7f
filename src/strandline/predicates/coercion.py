"""The common type of two values, by the rules of Spark in ANSI mode."""

from typing import Final

from strandline.predicates.node import Node
from strandline.predicates.sql_type import (
    BIGINT,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    FLOATS,
    INTEGERS,
    OPAQUE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    SqlType,
    as_decimal,
    decimal,
    is_decimal,
    is_nested,
    is_number,
    wider_decimal,
)

_QUOTIENT_SCALE_MIN: Final = 6
_TOO_MANY: Final = f"the result may need more than {DIGITS_MAX} digits, cast to fewer first"


class Mismatch(Exception):  # noqa: N818
    """Two types have no common type; `is_unsupported` if they have one in Spark only."""

    def __init__(self, message: str, *, is_unsupported: bool = False) -> None:
        super().__init__(message)
        self.is_unsupported = is_unsupported


def common_type(left: SqlType, right: SqlType) -> SqlType:
    """Return the type in which the two are compared."""
    if OPAQUE in {left, right} or is_nested(left) or is_nested(right):
        raise Mismatch(
            "values of this type can only be tested for NULL, or looked into", is_unsupported=True
        )
    if left == right or right is VOID:
        return left
    if left is VOID:
        return right
    if STRING in {left, right}:
        return _with_text(left if right is STRING else right)
    if is_number(left) and is_number(right):
        return _of_numbers(left, right)
    both = {left, right}
    if both == {TIMESTAMP, TIMESTAMP_NTZ}:
        raise Mismatch("a time with a zone and one without are not compared", is_unsupported=True)
    if DATE in both and both & {TIMESTAMP, TIMESTAMP_NTZ}:
        return right if left is DATE else left
    raise Mismatch(f"{left} and {right} have no common type, use CAST")


def result_type(
    op: str, left: Node, right: Node
) -> tuple[SqlType, tuple[SqlType | None, SqlType | None]]:
    """Return the type of a result, and the types to which its inputs are cast first, if any."""
    kinds = left.type, right.type
    if VOID in kinds:
        known = kinds[0] if kinds[1] is VOID else kinds[1]
        made = DOUBLE if op == "div" or known is VOID else known
        return made, (None, None)
    for kind in kinds:
        if not is_number(kind):
            raise Mismatch(
                f"arithmetic needs numbers, and not {kind}; add an INTERVAL to a time",
                is_unsupported=True,
            )
    if op == "div":
        return _quotient(left, right)
    meeting = _of_numbers(*kinds, bounded=False)
    if op.startswith("bit_") and meeting not in INTEGERS:
        raise Mismatch("& | ^ are for integers")
    if op == "mod" and is_decimal(meeting):
        raise Mismatch("a DECIMAL has no remainder here, cast it to DOUBLE", is_unsupported=True)
    if not is_decimal(meeting):
        return meeting, (meeting, meeting)
    return _of_decimals(op, _exact(left), _exact(right))


def _with_text(other: SqlType) -> SqlType:
    if other in INTEGERS:
        return BIGINT
    if is_number(other):
        return DOUBLE
    return other


def _of_numbers(left: SqlType, right: SqlType, *, bounded: bool = True) -> SqlType:
    if left == right:
        return left
    if left in FLOATS or right in FLOATS:
        return DOUBLE if {left, right} != {FLOAT} else FLOAT
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    wider = wider_decimal(as_decimal(left), as_decimal(right))
    if bounded and wider.precision > DIGITS_MAX:
        raise Mismatch(
            f"comparing {left} and {right} takes more than {DIGITS_MAX} digits",
            is_unsupported=True,
        )
    return wider


def _quotient(left: Node, right: Node) -> tuple[SqlType, tuple[SqlType | None, SqlType | None]]:
    kinds = left.type, right.type
    if not any(map(is_decimal, kinds)) or any(kind in FLOATS for kind in kinds):
        return DOUBLE, (DOUBLE, DOUBLE)
    top, bottom = _exact(left), _exact(right)
    whole = top.precision - top.scale + bottom.scale
    scale = max(_QUOTIENT_SCALE_MIN, top.scale + bottom.precision + 1)
    if whole + scale > DIGITS_MAX:
        scale = max(DIGITS_MAX - whole, min(scale, _QUOTIENT_SCALE_MIN))
    if whole + scale > DIGITS_MAX:
        raise Mismatch(_TOO_MANY, is_unsupported=True)
    return decimal(whole + scale, scale), (top, bottom)


def _exact(node: Node) -> SqlType:
    # Spark uses the digits of a literal, not those of its type.
    if node.is_literal and node.type in INTEGERS:
        return decimal(len(str(abs(node.detail))), 0)
    return as_decimal(node.type)


def _of_decimals(
    op: str, left: SqlType, right: SqlType
) -> tuple[SqlType, tuple[SqlType | None, SqlType | None]]:
    if op == "mul":
        made = decimal(left.precision + right.precision + 1, left.scale + right.scale)
    else:
        wider = wider_decimal(left, right)
        made = decimal(wider.precision + 1, wider.scale)
    if made.precision > DIGITS_MAX:
        raise Mismatch(_TOO_MANY, is_unsupported=True)
    return made, (left, right)
