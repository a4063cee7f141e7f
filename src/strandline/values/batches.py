"""Arrow record batches from outside: checked before any of their memory is used.

Every batch enters and leaves a log through this module. Arrow reads the buffers of a
batch at the offsets and indices that are stored in these buffers, so reading a batch that
was not validated may expose memory of the process.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from strandline._core import IS_COMPILED
from strandline.values.errors import InvalidError

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import are_texts

SCHEMA_DEPTH_MAX: Final = 48
"""How deeply lists, maps and structs of a schema may nest.

Arrow can read 63 levels, Parquet 49 levels of lists.
"""
_READABLE_DEPTH_MAX: Final = 128

BATCH_ELEMENTS_MAX: Final = 1 << 24
"""How many values a batch may hold in one column, or 8 for each byte if that is more.

Arrow can store any number of nulls without using space, and a reader makes an object of each.
"""

# The class of every type without parameters, and of no other.
_PLAIN: Final = pa.DataType
#: The numbers of types that have parameters, and contain no other type.
_WITH_PARAMETERS: Final = frozenset(
    arrow.id
    for arrow in (
        *(pa.timestamp("us"), pa.time32("s"), pa.time64("us"), pa.duration("us")),
        *(pa.binary(1), pa.decimal128(1), pa.decimal256(1)),
    )
)

#: From this size on, a buffer of the right size is allocated first; a growing one is copied.
_PRESIZED_BYTES: Final = 64 * 1024
#: Space for the schema and the end of a stream, whose exact size is slow to measure.
_SCHEMA_BYTES: Final = 4096
# The defaults. Without options, pyarrow checks the environment each time.
_OPTIONS: Final = pa.ipc.IpcWriteOptions()

#: The width of the offsets of texts, by the number of their type.
_OFFSET_BYTES: Final = {pa.string().id: 4, pa.large_string().id: 8}
#: From this number of rows on, the core validates texts faster than Arrow.
_MANY_ROWS: Final = 1_000

#: The last schema without nested columns that `check_schema` has accepted. A batch is checked
#: twice on its way into a typed topic, and the next one is likely to have the same schema.
_last_flat = pa.schema([])

# In addition to ArrowException, Arrow raises these for a message that it cannot parse, for
# a name that is not UTF-8, and for a length that exceeds the memory.
_UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


def encode_batch(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the batch as an Arrow IPC stream; InvalidError if it is not valid.

    The returned bytes are a copy that was validated; a later change of the caller's buffers
    does not affect it.
    """
    check_structure(batch)
    return encode_measured(batch)


def encode_measured(batch: pa.RecordBatch) -> pa.Buffer:
    """Do what `encode_batch` does, for a batch that has passed `check_structure`."""
    try:
        encoded = _presized(batch) or _grown(batch)
    except _UNREADABLE as error:
        raise InvalidError("Arrow cannot store this batch", reason=str(error)) from error
    copy = decode_batch(encoded)
    is_long = copy.num_rows > BATCH_ELEMENTS_MAX
    for number, field in enumerate(copy.schema):
        is_flat = _is_flat(field.type)
        if is_long or not is_flat:
            _check_lengths(copy.column(number), copy, field.name)
        if not is_flat or not field.nullable:
            _check_nulls(copy.column(number), field, field.name)
    return encoded


def _presized(batch: pa.RecordBatch) -> pa.Buffer | None:
    """Return a large batch as an IPC stream; None if it is small, or does not fit the buffer."""
    size = pa.ipc.get_record_batch_size(batch) + _SCHEMA_BYTES
    if size < _PRESIZED_BYTES:
        return None
    room = pa.allocate_buffer(size)
    sink = pa.FixedSizeBufferWriter(room)
    try:
        _write_stream(sink, batch)
    except (pa.ArrowException, OSError):
        # Dictionaries, or a long schema.
        return None
    return room.slice(0, sink.tell())


def _grown(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    _write_stream(sink, batch)
    return sink.getvalue()


def _write_stream(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as stream:
        stream.write_batch(batch)


def decode_batch(encoded: "bytes | pa.Buffer") -> pa.RecordBatch:
    """Return the batch of an Arrow IPC stream; InvalidError if it is not a valid one."""
    try:
        batch = pa.ipc.open_stream(encoded).read_next_batch()
    except StopIteration:
        raise InvalidError("this Arrow stream holds no batch") from None
    except _UNREADABLE as error:
        raise InvalidError("this is not an Arrow stream", reason=str(error)) from error
    check_content(batch)
    return batch


def check_structure(batch: pa.RecordBatch) -> None:
    """Raise InvalidError if a buffer is too short, or the schema nests too deeply.

    Takes the same time for any number of rows. Afterwards a batch can be measured and
    copied; call `check_content` before its values are read.
    """
    check_schema(batch.schema)
    _validate(batch, full=False)


def check_content(batch: pa.RecordBatch) -> None:
    """Raise InvalidError unless every offset, index and text of the batch is valid."""
    if not _is_surely_valid(batch):
        _validate(batch, full=True)


def _is_surely_valid(batch: pa.RecordBatch) -> bool:
    """Whether a batch of many rows is valid; False if Arrow has to decide."""
    if not IS_COMPILED or batch.num_rows < _MANY_ROWS:
        return False
    try:
        batch.validate()
        for column in batch.columns:
            if not _has_texts(column):
                column.validate(full=True)
    except _UNREADABLE:
        return False
    return True


def _has_texts(column: Any) -> bool:
    """Whether a column, whose buffers are long enough, certainly holds only texts and nulls."""
    width = _OFFSET_BYTES.get(column.type.id)
    if width is None:
        return False
    validity, offsets, content = column.buffers()
    if validity is not None:
        # The bits as a separate column, so that Arrow counts them.
        bits = (pa.bool_(), len(column), [validity, validity], column.null_count, column.offset)
        pa.Array.from_buffers(*bits).validate(full=True)
    return are_texts(offsets, width, column.offset, len(column), content or b"")


def _validate(batch: pa.RecordBatch, *, full: bool) -> None:
    try:
        batch.validate(full=full)
    except _UNREADABLE as error:
        raise InvalidError(
            "this batch is not valid Arrow data, build it again", reason=str(error)
        ) from error


def decode_schema(packed: "bytes | pa.Buffer") -> pa.Schema:
    """Return the schema that Arrow serialized as `packed`; InvalidError for anything else."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(packed))
    except _UNREADABLE as error:
        raise InvalidError("this is not a serialized Arrow schema", reason=str(error)) from error
    # A stored schema may nest deeper than a new one.
    check_schema(schema, _READABLE_DEPTH_MAX)
    return schema


def check_schema(schema: pa.Schema, depth_max: int = SCHEMA_DEPTH_MAX) -> None:
    """Raise InvalidError if a column nests too deeply, or has a name that is not text."""
    global _last_flat  # noqa: PLW0603 - A cache of one.
    if schema.equals(_last_flat):
        return
    try:
        names = schema.names
        nested = [number for number, arrow in enumerate(schema.types) if not _is_flat(arrow)]
        for number in nested:
            if _exceeds(schema.types[number], depth_max):
                raise InvalidError(
                    "this column nests too deeply, flatten it",
                    column=names[number],
                    depth_max=depth_max,
                )
    except UnicodeDecodeError as error:
        raise InvalidError("the name of a column is UTF-8", reason=str(error)) from error
    if not nested:
        _last_flat = schema


def _is_flat(arrow: pa.DataType) -> bool:
    """Whether the type certainly contains no other type."""
    return type(arrow) is _PLAIN or arrow.id in _WITH_PARAMETERS


def _exceeds(arrow: pa.DataType, depth_max: int) -> bool:
    # Iterative, because a malicious type may be too deep for recursion.
    level = [arrow]
    for _ in range(depth_max + 1):
        level = [part for each in level for part in _parts(each)]
        if not level:
            return False
    return True


def _parts(arrow: pa.DataType) -> Iterator[pa.DataType]:
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_dictionary(arrow):
        yield arrow.value_type
    else:
        for field in _fields(arrow):
            # Arrow keeps names as bytes, and decodes one when it is accessed.
            _ = field.name
            yield field.type


def _fields(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.field(number) for number in range(arrow.num_fields)]


def _check_lengths(column: Any, batch: pa.RecordBatch, name: str) -> None:
    count = max(map(len, _arrays(column)))
    if count > BATCH_ELEMENTS_MAX and count > 8 * batch.nbytes:
        raise InvalidError(
            "this column has too many values, split the batch",
            column=name,
            values=count,
            values_max=max(BATCH_ELEMENTS_MAX, 8 * batch.nbytes),
        )


def _arrays(column: Any) -> Iterator[Any]:
    """Yield the array and every array inside it."""
    yield column
    if isinstance(column, pa.ExtensionArray):
        yield from _arrays(column.storage)
    elif isinstance(column, pa.StructArray | pa.UnionArray):
        for number in range(column.type.num_fields):
            yield from _arrays(column.field(number))
    elif pa.types.is_nested(column.type):
        yield from _arrays(column.values)


def _check_nulls(column: Any, field: pa.Field, path: str) -> None:
    """Raise InvalidError for a null where `field` or a field inside it allows none."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not field.nullable and column.null_count:
        raise InvalidError(
            "this field may not be null, and is", column=path, nulls=column.null_count
        )
    arrow = column.type
    if _is_flat(arrow) or not _has_required(arrow):
        return
    if pa.types.is_struct(arrow):
        _check_struct(column, path)
    elif pa.types.is_map(arrow):
        # Arrow has already checked that no key is null.
        _check_nulls(_items(column).flatten(), arrow.item_field, f"{path}.value")
    elif pa.types.is_nested(arrow) and not pa.types.is_union(arrow):
        _check_nulls(column.flatten(), arrow.field(0), f"{path}.element")


def _check_struct(column: pa.StructArray, path: str) -> None:
    present = column
    if column.null_count:
        # The fields below a null struct may have any content.
        present = column.drop_null()
    for number, field in enumerate(_fields(column.type)):
        _check_nulls(present.field(number), field, f"{path}.{field.name}")


def _items(column: pa.MapArray) -> pa.ListArray:
    """Return the values of each map as a list."""
    validity, offsets = column.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(column.type.item_field),
        len(column),
        [validity, offsets],
        offset=column.offset,
        children=[column.items],
    )


def _has_required(arrow: pa.DataType) -> bool:
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return False
    return any(not field.nullable or _has_required(field.type) for field in _fields(arrow))
