"""Merges columns of several schemas into one schema: numbers are widened without loss."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from strandline.values.errors import InvalidError

_INTEGERS: Final = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.uint8(): (pa.uint16(), pa.uint32(), pa.uint64(), pa.int16(), pa.int32(), pa.int64()),
    pa.uint16(): (pa.uint32(), pa.uint64(), pa.int32(), pa.int64()),
    pa.uint32(): (pa.uint64(), pa.int64()),
}
_FLOATS: Final = {
    pa.float16(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
WIDENINGS: Final[Mapping[pa.DataType, tuple[pa.DataType, ...]]] = {**_INTEGERS, **_FLOATS}
"""The types to which a column may be widened; for decimals see `is_wider`."""


def is_wider(new: pa.DataType, old: pa.DataType) -> bool:
    """Return whether type `new` can hold every number of type `old`, by WIDENINGS.

    A decimal may get more digits on either side of the point, and lose none.
    """
    if pa.types.is_decimal(new) and pa.types.is_decimal(old):
        whole = (new.precision - new.scale) - (old.precision - old.scale)
        return bool(new != old and whole >= 0 and new.scale >= old.scale)
    return new in WIDENINGS.get(old, ())


def united(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema with the columns of all schemas, each with the widest of its types.

    Columns are in the order of their first occurrence, so versions of one schema give the
    newest. InvalidError if a column has two types of which neither can hold the other's values.
    """
    distinct = list(dict.fromkeys(schemas))
    widest: dict[str, pa.DataType] = {}
    for schema in distinct:
        for field in schema:
            known = widest.get(field.name)
            if known is None or is_wider(field.type, known):
                widest[field.name] = field.type

    def widened(field: pa.Field) -> pa.Field:
        wide = widest[field.name]
        return field.with_type(wide) if is_wider(wide, field.type) else field

    try:
        return pa.unify_schemas([pa.schema(map(widened, schema)) for schema in distinct])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidError(
            "these records have one column with two types, read them separately", reason=str(error)
        ) from error


def relaxed(arrow: pa.DataType) -> pa.DataType:
    """Return the type with every field inside it nullable, except the keys of maps."""
    if not pa.types.is_nested(arrow) or pa.types.is_union(arrow):
        return arrow
    if pa.types.is_map(arrow):
        item = arrow.item_field
        return pa.map_(
            arrow.key_field.with_type(relaxed(arrow.key_type)),
            item.with_type(relaxed(item.type)).with_nullable(True),
            keys_sorted=arrow.keys_sorted,
        )
    fields = [
        field.with_type(relaxed(field.type)).with_nullable(True)
        for field in (arrow.field(n) for n in range(arrow.num_fields))
    ]
    if pa.types.is_struct(arrow):
        return pa.struct(fields)
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(fields[0], arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(fields[0])
    return pa.list_(fields[0]) if pa.types.is_list(arrow) else arrow


def fitted(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return the column with another type that holds its values.

    If only the nullability of inner fields differs, the column is used unchanged, even if a
    field contains a null that the type forbids: such records may be stored, and must be read.
    """
    if column.type == arrow:
        return column
    if relaxed(column.type) == relaxed(arrow):
        return _retyped(column, arrow)
    return column.cast(arrow)


def fitted_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, with nulls for columns that the batch lacks."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    names = set(batch.schema.names)
    arrays = [
        fitted(batch.column(field.name), field.type)
        if field.name in names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _retyped(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return the same buffers with a type of the same layout; a cast would check for nulls."""
    whole = pa.RecordBatch.from_arrays([column], names=["column"])
    schema = pa.schema([pa.field("column", arrow)])
    return pa.ipc.read_record_batch(whole.serialize(), schema).column(0)
