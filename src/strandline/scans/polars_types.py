"""Columns as polars can take them over: it misreads decimals of 32 and 64 bits. See design 0104."""

from typing import Final

import pyarrow as pa

from strandline.values.leaf_types import with_leaves

#: More digits polars does not have.
_DIGITS_MAX: Final = 38


def for_polars(schema: pa.Schema) -> pa.Schema:
    """Return the columns with all decimals in 128 bits, also those within others."""
    return pa.schema([each.with_type(with_leaves(each.type, _readable)) for each in schema])


def _readable(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(arrow) and arrow.precision <= _DIGITS_MAX:
        return pa.decimal128(arrow.precision, arrow.scale)
    return arrow
