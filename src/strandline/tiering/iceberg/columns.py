"""Derives the columns of an Iceberg table from those of the objects."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from strandline.tiering.footer import Footer
from strandline.values import InvalidError

_KEPT: Final = (
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)
#: What Parquet stores in the same way as the type on the right.
_ALIKE: Final = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.timestamp("s"): pa.timestamp("us"),
    pa.timestamp("ms"): pa.timestamp("us"),
    pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC"),
}
#: How Iceberg widens a type, besides decimals with more digits before the point.
_WIDENED: Final = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def widened_columns(known: pa.Schema | None, footer: Footer) -> pa.Schema:
    """Return the columns of a table over one more object.

    InvalidError if it has packed batches, a type that Iceberg lacks, or a column whose type does
    not go together with the known one.
    """
    if footer.is_packed:
        raise InvalidError(
            "batches of this topic are packed whole, so there are no columns for an Iceberg "
            "table; tier without iceberg"
        )
    types = {} if known is None else _known_types(known)
    for column, found in _types(footer.columns).items():
        wider = _wider(types.get(column, found), found)
        if wider is None:
            raise InvalidError(
                "a column of an Iceberg table has one type, and these two are incompatible; to go "
                "on without the table drop it in its catalogue, and tier without iceberg",
                column=column,
                types=f"{types[column]}, {found}",
            )
        types[column] = wider
    for path, times in Counter(path for each in types.items() for path in _paths(*each)).items():
        if times > 1:
            raise InvalidError(
                "Iceberg separates the names of nested columns by dots, and two columns have this "
                "one; rename one of them, or tier without iceberg",
                column=path,
            )
    return pa.schema(list(types.items()))


def replaced_columns(known: pa.Schema, wanted: pa.Schema) -> Sequence[str]:
    """Return the columns of a table that cannot be widened to their wanted types."""
    types = _types(wanted)
    return [
        column
        for column, found in _known_types(known).items()
        if column in types and _wider(found, types[column]) != types[column]
    ]


def _types(columns: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of columns as Iceberg has them: all may be null, and none has metadata."""
    return {each.name: _type(each.type, each.name) for each in columns}


def _known_types(columns: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of a table's columns, without those that only other programs make."""
    found: dict[str, pa.DataType] = {}
    for each in columns:
        with contextlib.suppress(InvalidError):
            found[each.name] = _type(each.type, each.name)
    return found


def _wider(known: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    """Return the type that Iceberg widens both to; None if there is none."""
    for one, other in ((known, found), (found, known)):
        if one == other or (one, other) in _WIDENED:
            return other
    if pa.types.is_decimal(known) and pa.types.is_decimal(found) and known.scale == found.scale:
        return max(known, found, key=lambda each: each.precision)
    if pa.types.is_list(known) and pa.types.is_list(found):
        value = _wider(known.value_type, found.value_type)
        return None if value is None else pa.list_(value)
    if pa.types.is_map(known) and pa.types.is_map(found) and known.key_type == found.key_type:
        value = _wider(known.item_type, found.item_type)
        return None if value is None else pa.map_(known.key_type, value)
    both = pa.types.is_struct(known) and pa.types.is_struct(found)
    return _wider_struct(known, found) if both else None


def _wider_struct(known: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    types = {each.name: each.type for each in known.fields}
    for each in found.fields:
        wider = _wider(types.get(each.name, each.type), each.type)
        if wider is None:
            return None
        types[each.name] = wider
    return pa.struct(list(types.items()))


def _paths(path: str, arrow: pa.DataType) -> Iterator[str]:
    """Yield the full names of a column and of what is nested in it."""
    yield path
    inner: list[tuple[str, pa.DataType]] = []
    if pa.types.is_struct(arrow):
        inner = [(each.name, each.type) for each in arrow.fields]
    elif pa.types.is_map(arrow):
        inner = [("key", arrow.key_type), ("value", arrow.item_type)]
    elif pa.types.is_list(arrow):
        inner = [("element", arrow.value_type)]
    for name, found in inner:
        yield from _paths(f"{path}.{name}", found)


def _type(arrow: pa.DataType, column: str) -> pa.DataType:
    arrow = _ALIKE.get(arrow, arrow)
    if arrow in _KEPT or pa.types.is_fixed_size_binary(arrow):
        return arrow
    if pa.types.is_decimal128(arrow) and arrow.scale >= 0:
        return arrow
    if pa.types.is_dictionary(arrow):
        return _type(arrow.value_type, column)
    if pa.types.is_struct(arrow) and arrow.num_fields:
        inner = (arrow.field(number) for number in range(arrow.num_fields))
        return pa.struct([(each.name, _type(each.type, column)) for each in inner])
    if pa.types.is_map(arrow):
        return pa.map_(_type(arrow.key_type, column), _type(arrow.item_type, column))
    if (
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
    ):
        return pa.list_(_type(arrow.value_type, column))
    raise InvalidError(
        "an Iceberg table has no column of this type; append it as another one, times with the "
        "zone UTC and in microseconds, or tier without iceberg",
        column=column,
        type=str(arrow),
    )
