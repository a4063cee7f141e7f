"""Columns as they are stored, in the type in which a predicate calculates."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from strandline.predicates.sql_type import (
    OPAQUE,
    STRING,
    VARIANT,
    SqlType,
    arrow_type,
    is_nested,
)

DECLARED: Final = b"strandline.payload_schema"
"""In the metadata of a column of JSON: the schema that is declared for it, as it is stored."""


def conversion(kind: SqlType, stored: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what turns a column into the type in which it is calculated, if it has another."""
    if kind in {OPAQUE, VARIANT} or is_nested(kind):
        return None
    wanted = arrow_type(kind)
    if stored == wanted:
        return None
    if kind is STRING and pa.types.is_dictionary(stored):
        return lambda column: column.dictionary_decode().cast(wanted)
    return lambda column: column.cast(wanted)
