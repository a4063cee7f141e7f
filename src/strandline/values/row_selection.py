"""Rows of a record batch by mask or index, also of types that Arrow cannot take from."""

from contextlib import suppress
from typing import Final

import pyarrow as pa

_PLAIN: Final = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def filtered(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """Return the rows for which the mask is true, in their order."""
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:
        return taken(batch, pa.arange(0, batch.num_rows).filter(mask))


def taken(batch: pa.RecordBatch, indices: pa.Array) -> pa.RecordBatch:
    """Return a copy of the rows at these indices, with nothing of what lies between them."""
    try:
        return batch.take(indices)
    except pa.ArrowNotImplementedError:
        columns = [_taken(column, indices) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _taken(column: pa.Array, indices: pa.Array) -> pa.Array:
    with suppress(pa.ArrowNotImplementedError):
        return column.take(indices)
    # Not by slices where there is another way: joined slices of views share the memory of
    # the whole column, once for each slice.
    with suppress(pa.ArrowNotImplementedError):
        return column.cast(_without_views(column.type)).take(indices).cast(column.type)
    slices = [column.slice(index, 1) for index in indices.to_pylist()]
    return pa.concat_arrays(slices) if slices else column.slice(0, 0)


def _without_views(arrow: pa.DataType) -> pa.DataType:
    """Return the type with plain text and bytes in the place of views."""
    if not pa.types.is_nested(arrow):
        return _PLAIN.get(arrow, arrow)
    if pa.types.is_map(arrow):
        key, item = _plain(arrow.key_field), _plain(arrow.item_field)
        return pa.map_(key, item, keys_sorted=arrow.keys_sorted)
    if pa.types.is_struct(arrow):
        return pa.struct([_plain(arrow.field(number)) for number in range(arrow.num_fields)])
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(_plain(arrow.value_field), arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(_plain(arrow.value_field))
    return pa.list_(_plain(arrow.value_field)) if pa.types.is_list(arrow) else arrow


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(_without_views(field.type))
