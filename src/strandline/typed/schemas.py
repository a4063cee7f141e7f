"""Arrow schemas of typed topics: which are allowed, how they may evolve, how they differ."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from strandline.typed.errors import SchemaMismatchError, UnsupportedTypeError
from strandline.typed.spark_types import check_names, may_exceed_spark, spark_type
from strandline.values import CorruptError, InvalidError
from strandline.values.batches import check_content, check_schema, decode_schema
from strandline.values.widening import fitted, is_wider

TENANT_COLUMN: Final = "tenant_id"
"""Reserved, as is every name that begins with an underscore."""


def checked_schema(schema: object) -> pa.Schema:
    """Return `schema` with dictionaries decoded, as allowed for a topic.

    InvalidError if it is not a schema; UnsupportedTypeError, with the column and the reason,
    for a reserved name, two names that are equal to Spark, and a type that Parquet or Spark
    does not support.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidError("a schema is a pyarrow.Schema", type=type(schema).__name__)
    check_schema(schema)
    if not schema.names:
        raise InvalidError("a schema has at least one column")
    for name in schema.names:
        if name.startswith("_") or name.casefold() == TENANT_COLUMN:
            reason = f"names that begin with _, and {TENANT_COLUMN}, are reserved"
            raise UnsupportedTypeError(name, reason)
    check_names(schema.names)
    for field in schema:
        spark_type(field.type, field.name)
    return decoded_schema(schema)


def packed(schema: pa.Schema) -> bytes:
    """Return the schema as Arrow serializes it."""
    content: bytes = schema.serialize().to_pybytes()
    return content


def unpacked(content: bytes) -> pa.Schema:
    """Return the schema that was packed; CorruptError if it cannot be read."""
    try:
        return decode_schema(content)
    except InvalidError as error:
        raise CorruptError(
            "the stored schema of this topic cannot be read, drop the topic or restore it",
            file=None,
            position=None,
            reason=str(error),
        ) from error


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each dictionary type replaced by its values' type."""
    if not any(_has_dictionary(field.type) for field in schema):
        return schema
    fields = [field.with_type(_decoded(field.type)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch`, which equals `schema` once decoded, with exactly that schema.

    InvalidError for a null in a column without nulls, and for a value that Spark cannot hold.
    The batch has passed `check_structure`.
    """
    fields = list(schema)
    bounded = [number for number, field in enumerate(fields) if may_exceed_spark(field.type)]
    is_cast_inside = any(pa.types.is_nested(fields[number].type) for number in bounded)
    if is_cast_inside or not batch.schema.equals(schema):
        # Check first: a cast follows the batch's offsets and indices.
        check_content(batch)
    for number, field in enumerate(fields):
        # Each column that is looked at is another object.
        if not field.nullable and (nulls := batch.column(number).null_count):
            raise InvalidError(
                "this column may not be null, but has nulls", column=field.name, nulls=nulls
            )
        if number in bounded:
            _check_range(field, batch.column(number))
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    cast = [
        column.cast(field.type) if _has_dictionary(column.type) else column
        for field, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def differences(given: pa.Schema, wanted: pa.Schema) -> list[str]:
    """Return the differences, a sentence for each field; empty if the two are equal."""
    found = [_named(wanted, name, given) for name in wanted.names]
    found += [
        f"{name}: {_shown(given.field(name))} is not in the topic"
        for name in given.names
        if name not in wanted.names
    ]
    if len(set(given.names)) < len(given.names):
        found.append("two columns have the same name")
    reasons = [sentence for sentence in found if sentence]
    if not reasons and given.names != wanted.names:
        reasons.append(f"the order of columns: {given.names} given, {wanted.names} in the topic")
    return reasons


def unlike_evolution(new: pa.Schema, old: pa.Schema) -> list[str]:
    """Return why `new` is not a valid evolution of `old`; empty if it is.

    It is if it has the columns of `old` first, in order, each with the same type or a wider
    number type, followed only by nullable columns.
    """
    common = [
        old.field(field.name) if _follows(field, old.field(field.name)) else field
        for field in new
        if field.name in old.names
    ]
    found = differences(pa.schema(common), old)
    found += [
        f"{field.name}: an added column must be nullable"
        for field in new
        if field.name not in old.names and not field.nullable
    ]
    if not found and new.names[: len(old)] != old.names:
        found.append("added columns must come after the others")
    return found


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows converted to another version of the topic's schema.

    To a newer version: null for added columns, and numbers widened. To an older version:
    without added columns; SchemaMismatchError if a number does not fit its type there.
    """
    names = set(batch.schema.names)
    columns = []
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            columns.append(_checked_cast(batch.column(field.name), field.type))
        except pa.ArrowInvalid as error:
            sentence = f"{field.name}: {error}"
            raise SchemaMismatchError(
                "a row does not fit this version of the schema, read a newer one", [sentence]
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def fields_within(
    given: pa.DataType, wanted: pa.DataType, path: str = ""
) -> Iterator[tuple[str, pa.DataType, pa.DataType | None]]:
    """Yield the fields of a type as `column.field`, with their types here and in another type.

    None for a field that the other type does not have.
    """
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        for each in given:
            at, index = f"{path}{each.name}", wanted.get_field_index(each.name)
            if index < 0:
                yield at, each.type, None
            else:
                yield from fields_within(each.type, wanted.field(index).type, f"{at}.")
    elif pa.types.is_map(given) and pa.types.is_map(wanted):
        yield from fields_within(given.key_type, wanted.key_type, path)
        yield from fields_within(given.item_type, wanted.item_type, path)
    elif hasattr(given, "value_type") and hasattr(wanted, "value_type"):
        yield from fields_within(given.value_type, wanted.value_type, path)
    else:
        yield path.removesuffix("."), given, wanted


def check_zone(name: str, given: pa.DataType, wanted: pa.DataType, advice: str) -> None:
    """Raise InvalidError, with advice, if a cast would add or remove a time zone."""
    is_time = pa.types.is_temporal(given) and pa.types.is_temporal(wanted)
    if is_time and _has_zone(given) != _has_zone(wanted):
        raise InvalidError(
            f"one of these types has a time zone and the other has none: {advice}",
            column=name,
            given=str(given),
            wanted=str(wanted),
        )


def _has_zone(arrow: pa.DataType) -> bool:
    return pa.types.is_timestamp(arrow) and arrow.tz is not None


def _follows(new: pa.Field, old: pa.Field) -> bool:
    return new.nullable == old.nullable and is_wider(new.type, old.type)


def _checked_cast(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    if column.type == arrow:
        return column
    cast = fitted(column, arrow)
    if not is_wider(arrow, column.type):
        for given, found in zip(_leaves(column), _leaves(cast), strict=True):
            _check_rounding(given, found)
    return cast


def _check_rounding(given: pa.Array, found: pa.Array) -> None:
    """Raise ArrowInvalid if a cast has changed a number: Arrow rounds floats silently."""
    if given.type == found.type or not pa.types.is_floating(found.type):
        return
    # The module is slow to import, and rarely needed.
    pc: Any = import_module("pyarrow.compute")
    lost = pc.and_not(pc.not_equal(found.cast(given.type), given), pc.is_nan(given))
    if pc.any(lost).as_py():
        raise pa.ArrowInvalid(f"a number has more digits than {found.type} keeps")


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the values of a column, and of each field within one, in the order of its type."""
    if not pa.types.is_nested(column.type):
        yield column
        return
    if pa.types.is_map(column.type):
        inner = [column.keys, column.items]
    else:
        inner = column.flatten() if pa.types.is_struct(column.type) else [column.flatten()]
    for each in inner:
        yield from _leaves(each)


def _named(wanted: pa.Schema, name: str, given: pa.Schema) -> str:
    field = wanted.field(name)
    if name not in given.names:
        return f"{name}: missing, {_shown(field)} in the topic"
    if given.names.count(name) > 1:
        return ""
    other = given.field(name)
    if other.equals(field):
        return ""
    return f"{name}: {_shown(other)} given, {_shown(field)} in the topic"


def _shown(field: pa.Field) -> str:
    return f"{field.type}" if field.nullable else f"{field.type} not null"


def _check_range(field: pa.Field, column: pa.Array) -> None:
    try:
        column.cast(spark_type(field.type, field.name).arrow)
    except pa.ArrowInvalid as error:
        raise InvalidError(
            "this column has a value that Spark cannot hold", column=field.name, reason=str(error)
        ) from error


def _has_dictionary(arrow: pa.DataType) -> bool:
    if pa.types.is_nested(arrow):
        return any(_has_dictionary(arrow.field(n).type) for n in range(arrow.num_fields))
    return bool(pa.types.is_dictionary(arrow))


def _decoded(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if not _has_dictionary(arrow):
        return arrow
    fields = [
        arrow.field(n).with_type(_decoded(arrow.field(n).type)) for n in range(arrow.num_fields)
    ]
    if pa.types.is_struct(arrow):
        return pa.struct(fields)
    if pa.types.is_map(arrow):
        return pa.map_(
            _decoded(arrow.key_type), arrow.item_field.with_type(_decoded(arrow.item_type))
        )
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(fields[0], arrow.list_size)
    return pa.large_list(fields[0]) if pa.types.is_large_list(arrow) else pa.list_(fields[0])
