"""Kernels that compute row by row, if Arrow has none with Spark's semantics."""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pyarrow as pa

Kernel = Callable[..., Any]
"""Called with a column, or one value for all rows, for each input; returns a column."""


def each_row(compute: Callable[..., Any], made: pa.DataType) -> Kernel:
    """Return a kernel that computes each row separately; the result of a NULL is NULL."""

    def kernel(*inputs: Any) -> pa.Array:
        rows = zip(*map(values_of, inputs), strict=False)
        return pa.array([None if None in row else compute(*row) for row in rows], made)

    return kernel


def values_of(column: Any) -> Iterable[Any]:
    """Return the values of a column, dates and times as numbers; a single value is repeated."""
    if isinstance(column, pa.Array):
        if pa.types.is_date32(column.type):
            column = column.view(pa.int32())
        elif pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        found: list[Any] = column.to_pylist()
        return found
    is_moment = pa.types.is_temporal(column.type)
    return repeat(column.value if is_moment and column.is_valid else column.as_py())
