"""Selects rows of a record batch by mask or index, also for types that Arrow's `take` lacks."""

from contextlib import suppress
from typing import Final

import pyarrow as pa

from strandline.values.leaf_types import with_leaves

_PLAIN: Final = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def filtered(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """Return the rows for which the mask is true, in order."""
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:
        return taken(batch, pa.arange(0, batch.num_rows).filter(mask))


def taken(batch: pa.RecordBatch, indices: pa.Array) -> pa.RecordBatch:
    """Return a copy of the rows at these indices, without the memory of the rows between them."""
    try:
        return batch.take(indices)
    except pa.ArrowNotImplementedError:
        columns = [_taken(column, indices) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _taken(column: pa.Array, indices: pa.Array) -> pa.Array:
    with suppress(pa.ArrowNotImplementedError):
        return column.take(indices)
    plain = with_leaves(column.type, _without_view)
    # Slices are avoided if possible: joined slices of views share the memory of
    # the whole column, once for each slice.
    with suppress(pa.ArrowNotImplementedError):
        return column.cast(plain).take(indices).cast(column.type)
    slices = [column.slice(index, 1) for index in indices.to_pylist()]
    return pa.concat_arrays(slices) if slices else column.slice(0, 0)


def _without_view(arrow: pa.DataType) -> pa.DataType:
    return _PLAIN.get(arrow, arrow)
