"""Rows of record batches as JSON values."""

import base64
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from strandline.values.errors import InvalidError

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of(batch: "pa.RecordBatch") -> list[dict[str, Any]]:
    """Return the rows of a batch: times as text, durations as numbers of their unit.

    Python's times cover the years 1 to 9999 in microseconds; Arrow's range is larger.
    """
    import pyarrow as pa  # noqa: PLC0415 Takes long to import.

    try:
        columns = [column.cast(_without_times(column.type)) for column in batch.columns]
        plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        return list(plain.to_pylist())
    except (pa.ArrowException, ValueError) as error:
        raise InvalidError("these rows cannot be shown as JSON", reason=str(error)) from error


def jsonable(value: object) -> object:
    """Return a value of a batch as a JSON value."""
    if isinstance(value, dict):
        return {str(name): jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal | UUID):
        return str(value)
    return value


def _without_times(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa  # noqa: PLC0415 The same.

    types = pa.types
    if types.is_duration(kind):
        kind = pa.int64()
    elif types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        kind = pa.string()
    elif types.is_struct(kind):
        kind = pa.struct([each.with_type(_without_times(each.type)) for each in kind])
    elif types.is_map(kind):
        kind = pa.map_(_without_times(kind.key_type), _without_times(kind.item_type))
    elif types.is_fixed_size_list(kind):
        kind = pa.list_(_without_times(kind.value_type), kind.list_size)
    elif types.is_list(kind) or types.is_large_list(kind):
        kind = pa.large_list(_without_times(kind.value_type))
    elif types.is_dictionary(kind):
        kind = _without_times(kind.value_type)
    return kind
