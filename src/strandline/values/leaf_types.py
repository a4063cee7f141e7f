"""Replaces the leaf types of nested Arrow types."""

from collections.abc import Callable

import pyarrow as pa


def with_leaves(arrow: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return the type with each leaf type replaced by the result of `change`."""

    def field(each: pa.Field) -> pa.Field:
        return each.with_type(with_leaves(each.type, change))

    types = pa.types
    if types.is_dictionary(arrow):
        return pa.dictionary(arrow.index_type, with_leaves(arrow.value_type, change), arrow.ordered)
    if types.is_struct(arrow):
        return pa.struct([field(each) for each in arrow])
    if types.is_map(arrow):
        return pa.map_(field(arrow.key_field), field(arrow.item_field), arrow.keys_sorted)
    if types.is_fixed_size_list(arrow):
        return pa.list_(field(arrow.value_field), arrow.list_size)
    if types.is_large_list(arrow):
        return pa.large_list(field(arrow.value_field))
    return pa.list_(field(arrow.value_field)) if types.is_list(arrow) else change(arrow)
