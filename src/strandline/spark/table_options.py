"""Options of a table in Spark's catalogue, stored in the metadata of its columns.

Spark passes the options of `CREATE TABLE … USING strandline OPTIONS (…)` to a source only when
the table is created, not when it is read or written; it passes the columns each time. So the
options are stored as metadata of the columns, which the catalogue keeps. See design 0113.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from strandline.values import InvalidError

_METADATA: Final = "strandline.options"
#: Options that Spark adds, besides a second copy of each option.
_PROVIDER: Final = "provider"
_OF_SPARK: Final = frozenset(
    {_PROVIDER, "owner", "location", "comment", "collation", "external", "is_managed_location"}
)
_AGAIN: Final = "option."


def is_of_table(given: Mapping[str, str]) -> bool:
    """Whether these are the options of a table that is being created."""
    return _PROVIDER in given


def own_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the user has given for the table."""
    return {
        name: value
        for name, value in given.items()
        if name not in _OF_SPARK and not name.startswith(_AGAIN)
    }


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns with the options in their metadata."""
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, {_METADATA: dict(options)})
            for each in schema
        ]
    )


def options_of(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read or write: those of its table, if any, and those given."""
    for each in schema:
        kept = (each.metadata or {}).get(_METADATA)
        if kept is not None:
            return {**kept, **given}
    if not given:
        raise InvalidError(
            "this table has no options, make it without columns: "
            "CREATE TABLE name USING strandline OPTIONS (path '…', subscribe '…')"
        )
    return dict(given)


def plain_columns(schema: StructType) -> StructType:
    """Return the columns without the options in their metadata."""
    return StructType([StructField(each.name, each.dataType, each.nullable) for each in schema])
