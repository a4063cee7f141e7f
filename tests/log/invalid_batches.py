"""Arrow batches that are not valid, each in another way."""

import struct
from collections.abc import Callable

import pyarrow as pa

REQUIRED = pa.field("a", pa.int32(), nullable=False)


def beyond_the_data() -> pa.RecordBatch:
    """Return texts whose last offset was changed after the batch was made."""
    offsets = bytearray(struct.pack("<ii", 0, 2))
    text = pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(b"abc"))
    batch = pa.RecordBatch.from_arrays([text], ["x"])
    offsets[4:] = struct.pack("<i", 1 << 20)
    return batch


def falling_offsets() -> pa.RecordBatch:
    """Return texts whose first and last offset are right, and one between is not."""
    offsets = pa.py_buffer(struct.pack("<iii", 0, 1 << 20, 3))
    text = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"abc"))
    return pa.RecordBatch.from_arrays([text], ["x"])


def no_utf8() -> pa.RecordBatch:
    """Return a text that is not UTF-8."""
    offsets = pa.py_buffer(struct.pack("<ii", 0, 2))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff\xfe"))
    return pa.RecordBatch.from_arrays([text], ["x"])


def no_such_word() -> pa.RecordBatch:
    """Return an index that the dictionary does not have."""
    return pa.record_batch({"x": pa.DictionaryArray.from_arrays([5], ["one"], safe=False)})


def null_in_a_struct() -> pa.RecordBatch:
    """Return a struct with a null in a field that allows none."""
    column = pa.StructArray.from_arrays([pa.array([1, None], pa.int32())], fields=[REQUIRED])
    return pa.RecordBatch.from_arrays([column], ["x"])


def null_in_a_list() -> pa.RecordBatch:
    """Return a list with a null among items that may not be null."""
    kind = pa.list_(REQUIRED)
    column = pa.ListArray.from_arrays([0, 1, 2], pa.array([None, 2], pa.int32()), type=kind)
    return pa.RecordBatch.from_arrays([column], ["x"])


def null_in_a_map() -> pa.RecordBatch:
    """Return a map with a null among values that may not be null."""
    kind = pa.map_(pa.string(), REQUIRED)
    column = pa.MapArray.from_arrays([0, 1], ["k"], pa.array([None], pa.int32()), type=kind)
    return pa.RecordBatch.from_arrays([column], ["x"])


def endless_nulls() -> pa.RecordBatch:
    """Return more nulls than a reader could make objects of, in no byte at all."""
    column = pa.Array.from_buffers(pa.null(), 1 << 30, [None])
    return pa.RecordBatch.from_arrays([column], ["x"])


def odd_name() -> pa.RecordBatch:
    """Return a column whose name is not UTF-8."""
    schema = pa.schema([pa.field(b"\xff", pa.int64())])
    return pa.RecordBatch.from_arrays([pa.array([1])], schema=schema)


def deep(levels: int) -> pa.RecordBatch:
    """Return a list in a list, and so on."""
    column = pa.array([1])
    for _ in range(levels):
        column = pa.ListArray.from_arrays([0, 1], column)
    return pa.RecordBatch.from_arrays([column], ["x"])


def too_deep() -> pa.RecordBatch:
    """Return what Arrow itself could not store."""
    return deep(100)


INVALID: tuple[Callable[[], pa.RecordBatch], ...] = (
    *(beyond_the_data, falling_offsets, no_utf8, no_such_word),
    *(null_in_a_struct, null_in_a_list, null_in_a_map, endless_nulls, odd_name, too_deep),
)
MEMORY = (beyond_the_data, falling_offsets, no_utf8, no_such_word)
"""Those that a reader must not be given, whatever has stored them."""
