"""Columns as polars can take them over: it misreads decimals of 32 and 64 bits. See design 0104."""

from typing import Final

import pyarrow as pa

#: More digits polars does not have.
_DIGITS_MAX: Final = 38


def for_polars(schema: pa.Schema) -> pa.Schema:
    """Return the columns with all decimals in 128 bits, also those within others."""
    return pa.schema([_field(each) for each in schema])


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_type(field.type))


def _type(arrow: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_decimal(arrow) and arrow.precision <= _DIGITS_MAX:
        return pa.decimal128(arrow.precision, arrow.scale)
    if types.is_dictionary(arrow):
        return pa.dictionary(arrow.index_type, _type(arrow.value_type), arrow.ordered)
    if types.is_struct(arrow):
        return pa.struct([_field(each) for each in arrow])
    if types.is_map(arrow):
        return pa.map_(_field(arrow.key_field), _field(arrow.item_field), arrow.keys_sorted)
    return _list(arrow)


def _list(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_list(arrow):
        return pa.list_(_field(arrow.value_field))
    if pa.types.is_large_list(arrow):
        return pa.large_list(_field(arrow.value_field))
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(_field(arrow.value_field), arrow.list_size)
    return arrow
