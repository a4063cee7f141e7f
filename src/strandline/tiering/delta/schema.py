"""The columns of a Delta table, from those of the objects."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.log.columns import RECORD_FIELDS, batch_schema
from strandline.tiering.parquet import PACKED, TOPIC
from strandline.typed import spark_type
from strandline.values import InvalidError

_PRIMITIVE: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def table_schema(found: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of a table over objects with these value columns.

    InvalidError if one holds whole batches packed, or has a type that a Delta table has not.
    """
    values = batch_schema(found)
    if PACKED in values.names:
        raise InvalidError(
            "batches of this topic are packed whole, so there are no columns for a Delta table"
        )
    shown = [each for each in values if each not in RECORD_FIELDS]
    return pa.schema([*RECORD_FIELDS, pa.field(TOPIC, pa.string()), *shown])


def schema_text(schema: pa.Schema) -> str:
    """Return the columns as the metadata of a Delta table has them."""
    fields = [_field(each.name, each.type) for each in schema]
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()


def needs_local_times(text: str) -> bool:
    """Whether a column has times without a zone, which readers have to know."""
    return '"timestamp_ntz"' in text


def _field(name: str, arrow: pa.DataType) -> dict[str, Any]:
    return {"name": name, "type": delta_type(arrow, name), "nullable": True, "metadata": {}}


def delta_type(arrow: pa.DataType, column: str) -> Any:
    """Return how Delta calls a type; UnsupportedTypeError, an InvalidError, if it has none."""
    if pa.types.is_float16(arrow):
        raise InvalidError("other readers of Parquet know no halves", column=column)
    seen = spark_type(arrow, column).arrow
    if pa.types.is_decimal(seen):
        return f"decimal({seen.precision},{seen.scale})"
    if pa.types.is_struct(seen):
        inner = [arrow.field(number) for number in range(arrow.num_fields)]
        return {"type": "struct", "fields": [_field(each.name, each.type) for each in inner]}
    if pa.types.is_map(seen):
        return {
            "type": "map",
            "keyType": delta_type(arrow.key_type, column),
            "valueType": delta_type(arrow.item_type, column),
            "valueContainsNull": True,
        }
    if pa.types.is_list(seen):
        element = delta_type(arrow.value_type, column)
        return {"type": "array", "elementType": element, "containsNull": True}
    return _PRIMITIVE[seen]
