"""The declared payload fields of a topic of events: names and types, for predicates.

A declaration affects readers only. Appends are not checked against it: see design 0106.
"""

from typing import Any, Final

import pyarrow as pa

from strandline.values.batches import check_schema
from strandline.values.errors import InvalidError

_SCALARS: Final = frozenset(
    {pa.string(), pa.large_string(), pa.bool_(), pa.float64(), pa.date32()}
    | {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC")}
)
_INSTEAD: Final[dict[pa.DataType, str]] = {
    pa.float16(): "float64",
    pa.float32(): "float64",
    pa.uint8(): "int16",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
    pa.uint64(): "decimal128(20, 0)",
    pa.date64(): "date32",
}
_ALLOWED: Final = (
    "string, bool, int8 to int64, float64, decimal128, date32, timestamp('us', tz='UTC'), "
    "struct, list, map from string, json_()"
)
_DIGITS_MAX: Final = 38


def encode_payload_schema(schema: object) -> bytes:
    """Return a declaration in its stored form; InvalidError if no payload can have these fields."""
    if not isinstance(schema, pa.Schema):
        raise InvalidError(
            "payload_schema is a pyarrow.Schema of the fields of a payload, as in"
            " pa.schema({'amount': pa.int64()})",
            type=type(schema).__name__,
        )
    check_payload_schema(schema)
    return bytes(schema.remove_metadata().serialize().to_pybytes())


def check_payload_schema(schema: pa.Schema) -> None:
    """Raise InvalidError for a name or type that no payload can have."""
    check_schema(schema)
    if not schema.names:
        raise InvalidError("a payload_schema has at least one field, or is left out")
    _check_fields(list(schema), "payload")


def shown_payload_schema(schema: pa.Schema) -> dict[str, str]:
    """Return each field with its type, for people."""
    return {field.name: str(field.type) for field in schema}


def _check_fields(fields: list[pa.Field], within: str) -> None:
    names = [field.name for field in fields]
    for field in fields:
        at = f"{within}.{field.name}"
        if names.count(field.name) > 1:
            raise InvalidError("a payload_schema names each field once", field=at)
        _check_type(field.type, at)


def _check_type(arrow: Any, at: str) -> None:
    types = pa.types
    if types.is_struct(arrow):
        _check_fields([arrow.field(number) for number in range(arrow.num_fields)], at)
    elif types.is_list(arrow) or types.is_large_list(arrow):
        _check_type(arrow.value_type, f"{at}[0]")
    elif types.is_map(arrow) and types.is_string(arrow.key_type):
        _check_type(arrow.item_type, f"{at}['…']")
    elif types.is_decimal128(arrow):
        if not 0 <= arrow.scale <= arrow.precision <= _DIGITS_MAX:
            raise InvalidError("the scale of a decimal is 0 to its precision", field=at)
    elif arrow not in _SCALARS and not isinstance(arrow, pa.JsonType):
        instead = _INSTEAD.get(arrow)
        raise InvalidError(
            f"JSON has no values of this type, declare {instead or _ALLOWED}",
            field=at,
            type=str(arrow),
        )
