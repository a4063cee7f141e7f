"""The types of the dialect, and their Arrow types."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa

DIGITS_MAX: Final = 38
DECLARED: Final = b"strandline.payload_schema"
"""In the metadata of a column of JSON: its declared schema, in the stored form."""


class SqlType(NamedTuple):
    """A type by its Spark name; only a decimal has a precision and a scale."""

    name: str
    precision: int = 0
    scale: int = 0
    inner: "tuple[SqlType, ...]" = ()
    """The elements of an array; the keys and values of a map."""

    def __str__(self) -> str:
        shown = self.name.upper()
        return f"{shown}({self.precision},{self.scale})" if self.name == "decimal" else shown


VOID: Final = SqlType("void")
"""The type of a bare NULL."""
BOOLEAN: Final = SqlType("boolean")
TINYINT: Final = SqlType("tinyint")
SMALLINT: Final = SqlType("smallint")
INT: Final = SqlType("int")
BIGINT: Final = SqlType("bigint")
FLOAT: Final = SqlType("float")
DOUBLE: Final = SqlType("double")
STRING: Final = SqlType("string")
DATE: Final = SqlType("date")
TIMESTAMP: Final = SqlType("timestamp")
TIMESTAMP_NTZ: Final = SqlType("timestamp_ntz")
VARIANT: Final = SqlType("variant")
"""JSON, whose values each have their own type."""
OPAQUE: Final = SqlType("opaque")
"""Any other type; it can only be tested for NULL."""

INTEGERS: Final = (TINYINT, SMALLINT, INT, BIGINT)
FLOATS: Final = (FLOAT, DOUBLE)

_ARROW: Final = {
    VOID: pa.null(),
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
}
_SQL: Final = {arrow: sql for sql, arrow in _ARROW.items()} | {
    pa.uint8(): SMALLINT,
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): SqlType("decimal", 20, 0),
    pa.large_string(): STRING,
    pa.string_view(): STRING,
}
# The digits of the values of an integer type, as a decimal.
_DIGITS: Final = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}


def decimal(precision: int, scale: int) -> SqlType:
    """Return the decimal type of this precision and scale."""
    return SqlType("decimal", precision, scale)


DECIMAL_SECONDS: Final = decimal(8, 6)
"""The type of the seconds of a time."""


def is_decimal(kind: SqlType) -> bool:
    """Return whether it is a decimal type of any precision."""
    return kind.name == "decimal"


def is_nested(kind: SqlType) -> bool:
    """Return whether it is an array or a map."""
    return kind.name in {"array", "map"}


def is_number(kind: SqlType) -> bool:
    """Return whether it is numeric."""
    return kind in INTEGERS or kind in FLOATS or is_decimal(kind)


def as_decimal(kind: SqlType) -> SqlType:
    """Return the decimal type that holds every value of an integer type."""
    return kind if is_decimal(kind) else decimal(_DIGITS[kind], 0)


def arrow_type(kind: SqlType) -> pa.DataType:
    """Return the Arrow type that is used for calculations with this type."""
    if is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind]


def sql_type(arrow: pa.DataType) -> SqlType:
    """Return the type that Spark gives to a column of this Arrow type."""
    if pa.types.is_dictionary(arrow):
        return sql_type(arrow.value_type)
    if pa.types.is_timestamp(arrow) and arrow.unit != "ns":
        return TIMESTAMP if arrow.tz else TIMESTAMP_NTZ
    if pa.types.is_decimal(arrow) and 0 <= arrow.scale <= arrow.precision <= DIGITS_MAX:
        return decimal(arrow.precision, arrow.scale)
    return _SQL.get(arrow) or _nested(arrow)


def _nested(arrow: pa.DataType) -> SqlType:
    if isinstance(arrow, pa.JsonType):
        return VARIANT
    if pa.types.is_map(arrow):
        return SqlType("map", inner=(sql_type(arrow.key_type), sql_type(arrow.item_type)))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return SqlType("array", inner=(sql_type(arrow.value_type),))
    return OPAQUE


def wider_decimal(left: SqlType, right: SqlType) -> SqlType:
    """Return the decimal type that holds every value of both; it may need too many digits."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(whole + scale, scale)


def conversion(kind: SqlType, stored: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the conversion of a stored column to the type for calculations, if that differs."""
    if kind in {OPAQUE, VARIANT} or is_nested(kind):
        return None
    wanted = arrow_type(kind)
    if stored == wanted:
        return None
    if kind is STRING and pa.types.is_dictionary(stored):
        return lambda column: column.dictionary_decode().cast(wanted)
    return lambda column: column.cast(wanted)
