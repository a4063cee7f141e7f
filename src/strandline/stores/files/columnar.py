"""Frames of columns: many records as one Arrow record batch, perhaps compressed."""

import functools
from array import array
from collections.abc import Sequence
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Literal, cast

import pyarrow as pa

from strandline._core import IS_COMPILED
from strandline.log.draft import Draft
from strandline.log.draft_columns import EventColumns, EventDrafts, event_arrays
from strandline.stores.files.frame import (
    FRAME_BYTES_MAX,
    IS_LZ4,
    IS_MIXED,
    IS_ZSTD,
)
from strandline.values import InvalidError, Tenant, ValueKind

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import encode_columns
else:
    encode_columns = None

Compression = Literal["zstd", "lz4"]

_US = pa.timestamp("us", "UTC")
_APPEND = (("_timestamp", _US), ("_tenant", pa.string()))
_EVENT = (
    ("_key", pa.string()),
    ("kind", pa.string()),
    ("payload", pa.string()),
    ("headers", pa.string()),
    ("occurred_at", _US),
)
_BYTES = (("_key", pa.string()), ("value", pa.binary()))
_SCHEMAS = {
    (True, False): pa.schema(_EVENT),
    (True, True): pa.schema((*_APPEND, *_EVENT)),
    (False, False): pa.schema(_BYTES),
    (False, True): pa.schema((*_APPEND, *_BYTES)),
}
_SIZE = Struct("<I")
#: The alignment that Arrow requires of a column's address.
_ALIGNED_BYTES = 8
_CODECS: dict[Compression, tuple[int, str]] = {
    "zstd": (IS_ZSTD, "zstd"),
    "lz4": (IS_LZ4, "lz4_raw"),
}


def check_compression(name: object) -> Compression | None:
    """Return the name of a compression, or None for none; InvalidError for anything else."""
    if name is None or (type(name) is str and name in _CODECS):
        return name
    raise InvalidError("a compression is 'zstd', 'lz4' or None", compression=name)


def compression_of(flags: int) -> Compression | None:
    """Return how a frame with these flags is compressed."""
    return next((name for name, (flag, _) in _CODECS.items() if flags & flag), None)


def frame_schema(kind: ValueKind, flags: int) -> pa.Schema:
    """Return the columns of a frame."""
    return _SCHEMAS[kind is ValueKind.EVENT, bool(flags & IS_MIXED)]


@functools.cache
def import_for_arrays() -> None:
    """Import what pyarrow imports to make its first array of a list: all of pandas, if it is there.

    Before the partition is locked, since that takes a fifth of a second or, on a busy machine,
    seconds, and others wait.
    """
    pa.array([None])


def encode_drafts(
    kind: ValueKind, drafts: Sequence[Draft], compression: Compression | None
) -> tuple[int, bytes]:
    """Return the flags and the body of a frame with the records of one append."""
    if isinstance(drafts, EventDrafts):
        message = encode_columns(drafts.events)
        if message is not NotImplemented:
            return _body(pa.py_buffer(message), 0, compression)
    if isinstance(drafts, EventColumns):
        if drafts.message is not None:
            return _body(drafts.message, 0, compression)
        arrays = drafts.arrays
    else:
        keys, bodies, _ = zip(*drafts, strict=True)
        arrays = (
            event_arrays((keys, *zip(*bodies, strict=True)))
            if kind is ValueKind.EVENT
            else [pa.array(keys, pa.string()), pa.array(bodies, pa.binary())]
        )
    schema = frame_schema(kind, 0)
    return encode_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), 0, compression)


def encode_batch(
    batch: pa.RecordBatch, flags: int, compression: Compression | None
) -> tuple[int, bytes]:
    """Return the flags and the body of a frame that holds `batch`."""
    return _body(batch.serialize(), flags, compression)


def _body(message: pa.Buffer, flags: int, compression: Compression | None) -> tuple[int, bytes]:
    if compression is None:
        # Not bytes, but bytes-like: it is copied into a frame anyway.
        return flags, message
    flag, codec = _CODECS[compression]
    packed: bytes = pa.compress(message, codec, asbytes=True)
    return flags | flag, _SIZE.pack(message.size) + packed


def decode_batch(kind: ValueKind, flags: int, body: "bytes | pa.Buffer") -> pa.RecordBatch:
    """Return the columns of a frame. Raises ValueError or ArrowException for invalid bytes."""
    for flag, codec in _CODECS.values():
        if flags & flag:
            (size,) = _SIZE.unpack_from(body)
            if size > FRAME_BYTES_MAX:
                raise ValueError(f"{size} bytes are more than a frame may hold")
            body = pa.decompress(body[_SIZE.size :], size, codec, asbytes=True)
    buffer = pa.py_buffer(body)
    if buffer.address % _ALIGNED_BYTES:
        # Frames are not aligned, and Arrow's query engine warns of unaligned columns.
        buffer = pa.py_buffer(buffer.to_pybytes())
    batch = pa.ipc.read_record_batch(buffer, frame_schema(kind, flags))
    # The writer of the frame had validated each value. See `values.batches`.
    batch.validate()
    return batch


class Columns:
    """The columns of a frame as Python values, which is much faster than `to_pylist`."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def texts(self, name: str) -> list[str | None]:
        """Return a column of text."""
        column, content, ends = self._cells(name)
        if not content.isascii():
            pieces = _with_nulls(column, [content[a:b] for a, b in pairwise(ends)])
            return [None if piece is None else piece.decode() for piece in pieces]
        text = content.decode()
        return _with_nulls(column, [text[a:b] for a, b in pairwise(ends)])

    def pieces(self, name: str) -> list[bytes | None]:
        """Return a column of text or bytes, as it is stored."""
        column, content, ends = self._cells(name)
        return _with_nulls(column, [content[a:b] for a, b in pairwise(ends)])

    def numbers(self, name: str) -> list[int | None]:
        """Return a column of 64-bit numbers or timestamps."""
        column = self._batch.column(name)
        cells = memoryview(column.buffers()[1]).cast("q")
        start = column.offset
        return _with_nulls(column, cells[start : start + len(column)].tolist())

    def _cells(self, name: str) -> tuple[pa.Array, bytes, list[int]]:
        column = self._batch.column(name)
        _, offsets, content = column.buffers()
        start = column.offset
        ends = memoryview(offsets).cast("i")[start : start + len(column) + 1].tolist()
        if content is None or not ends:
            return column, b"", ends
        # Copy only these cells: the column may be a part of a long one.
        first, last = ends[0], ends[-1]
        cells = memoryview(content)[first:last].tobytes()
        return column, cells, [end - first for end in ends] if first else ends


def own_timestamps(batch: pa.RecordBatch, flags: int, timestamp_us: int) -> list[int]:
    """Return each record's timestamp."""
    if flags & IS_MIXED:
        return [stamp or 0 for stamp in Columns(batch).numbers("_timestamp")]
    return [timestamp_us] * batch.num_rows


def own_tenants(
    batch: pa.RecordBatch, flags: int, tenant: Tenant | None
) -> Sequence[Tenant | None]:
    """Return each record's tenant."""
    if flags & IS_MIXED:
        return cast("list[Tenant | None]", Columns(batch).texts("_tenant"))
    return [tenant] * batch.num_rows


def _with_nulls(column: pa.Array, values: list) -> list:  # type: ignore[type-arg]
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count:
        for index, is_valid in enumerate(column.is_valid().to_pylist()):
            if not is_valid:
                values[index] = None
    return values


def _teach_core() -> None:
    """Show the core how pyarrow encodes five columns of events, and where the numbers are.

    See Arrow's Message.fbs: the positions are found by searching for known values.
    """
    from strandline._core.core import columns_learn  # noqa: PLC0415 Only where it is built.

    count, column_count, buffer_count = 64, 5, 14
    schema = frame_schema(ValueKind.EVENT, 0)
    # Made of buffers: making its first array of a list, pyarrow imports pandas.
    ends = pa.py_buffer(array("i", range(count + 1)))
    texts = pa.StringArray.from_buffers(count, ends, pa.py_buffer(b"a" * count))
    arrays = [*([texts] * (column_count - 1)), pa.nulls(count, _US)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    message = batch.serialize().to_pybytes()
    length = 8 + int.from_bytes(message[4:8], "little")
    nodes_at = length - 16 * column_count
    buffers_at = nodes_at - 8 - 16 * buffer_count
    body_length_at = message.index((len(message) - length).to_bytes(8, "little"))
    rows_at = message.index(count.to_bytes(8, "little"))
    is_known = (
        message[nodes_at : nodes_at + 8] == count.to_bytes(8, "little")
        and message[buffers_at - 4 : buffers_at] == buffer_count.to_bytes(4, "little")
        and body_length_at < rows_at < buffers_at
    )
    if is_known:
        # With any other pyarrow version, the core reads and writes only rows.
        columns_learn(message[:length], body_length_at, rows_at, buffers_at, nodes_at)


if IS_COMPILED:
    _teach_core()
