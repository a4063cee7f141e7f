"""An object's footer: statistics of its columns, which help to avoid reading rows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Final

import msgspec
import pyarrow as pa

from strandline.tiering.arrow_parts import dataset, parquet
from strandline.tiering.field_statistics import unpacked
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.parquet import (
    DIGEST,
    FIELDS,
    METADATA_KEY,
    OWN_COLUMNS,
    PACKED,
    SCHEMA_ID,
    TIER_COLUMNS,
    About,
    float_paths,
    unpacked_schema,
)
from strandline.values import ValueKind

#: How much is fetched at first, enough for nearly every footer.
FOOTER_BYTES: Final = 64 * 1024
#: The length of the footer and the magic number at the end of a Parquet file.
_ENDING_BYTES: Final = 8
#: With more fields of floats in a filter, which may each be NaN, nothing is skipped by it.
_FLOATS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of a column, or a field of payloads, in one row group.

    `low` and `high` ignore NaN.
    """

    type: pa.DataType
    rows: int
    #: How many values are null, and the bounds of the others; None if not recorded.
    nulls: int | None
    low: Any = None
    high: Any = None
    #: How many values are NaN; None if not recorded.
    nans: int | None = None

    @property
    def is_null(self) -> bool:
        """Whether no row has a value."""
        return self.nulls == self.rows


class Footer:
    """The footer of an object. Its digest, which covers the whole object, is not checked."""

    def __init__(self, content: bytes) -> None:
        """Parse the last bytes of an object, which include all of its footer.

        Raises pyarrow's errors, KeyError or MsgspecError if it is not one of our copies.
        """
        self._metadata = parquet().read_metadata(pa.BufferReader(content))
        self._about = msgspec.json.decode(self._metadata.metadata[METADATA_KEY], type=About)
        self._schema: pa.Schema = self._metadata.schema.to_arrow_schema()
        self._content = content
        self.rows: int = self._metadata.num_rows
        self.kind: Final = self._about.value_kind

    @classmethod
    def of(cls, store: ObjectStore, name: str, size_bytes: int) -> "Footer | None":
        """Fetch the footer of an object; None if it is gone, or not one of our copies."""
        ending = store.get_end(name, max(0, size_bytes - FOOTER_BYTES))
        if ending and (needed := footer_bytes(ending)) > len(ending):
            ending = store.get_end(name, max(0, size_bytes - needed))
        if not ending:
            return None
        try:
            return cls(ending)
        except (pa.ArrowException, KeyError, TypeError, msgspec.MsgspecError, OSError):
            return None

    @property
    def columns(self) -> pa.Schema:
        """All columns in the file."""
        return self._schema

    @property
    def value_columns(self) -> pa.Schema:
        """The columns of the values in the file."""
        own = {*OWN_COLUMNS, *TIER_COLUMNS}
        return pa.schema([field for field in self._schema if field.name not in own])

    @property
    def fields(self) -> pa.Field | None:
        """The column of the declared payload fields; None if there is none."""
        is_there = self.kind is ValueKind.EVENT and FIELDS in self._schema.names
        return self._schema.field(FIELDS) if is_there else None

    @property
    def value_schemas(self) -> "list[pa.Schema]":
        """The schemas of the batches in the object; none if it holds no batches."""
        about = self._about
        packed = [about.schema] if about.schemas is None else about.schemas.values()
        return [unpacked_schema(text) for text in packed if text is not None]

    def groups_meeting(self, wanted: Any, schema: pa.Schema) -> AbstractSet[int] | None:
        """Return which row groups may have rows for which an Arrow expression is true.

        `schema` has the columns that the expression uses. None if unknown.
        """
        if self.is_packed or any(not self._is_stored_as(field) for field in schema):
            return None
        floats = float_paths(schema)
        if len(floats) > _FLOATS_MAX:
            return None
        # Statistics of older objects ignore NaN, and Arrow relies on them: look for NaN as well.
        meeting: set[int] = set()
        for count in range(len(floats) + 1):
            for nans in combinations(floats, count):
                meeting |= self._groups_meeting(wanted, schema, nans)
        return meeting

    def _groups_meeting(
        self, wanted: Any, schema: pa.Schema, nans: Iterable[tuple[str, ...]]
    ) -> set[int]:
        """Return the same of the rows whose fields `nans` are NaN."""
        guarantee, nan = dataset().scalar(value=True), pa.scalar(math.nan)
        for path in nans:
            guarantee &= dataset().field(*path) == nan
        fragment = (
            dataset()
            .ParquetFileFormat()
            .make_fragment(pa.BufferReader(self._content), partition_expression=guarantee)
        )
        parts = fragment.split_by_row_group(wanted, schema)
        return {group.id for part in parts for group in part.row_groups}

    def _is_stored_as(self, field: pa.Field) -> bool:
        names = self._schema.names
        return field.name in names and bool(self._schema.field(field.name).type == field.type)

    @property
    def groups(self) -> list[tuple[int, int]]:
        """The records [start, end) of each row group."""
        found = []
        for index in range(self._metadata.num_row_groups):
            offsets = self._metadata.row_group(index).column(1).statistics
            found.append((offsets.min, offsets.max + 1))
        return found

    def statistics(self, group: int, name: str) -> ColumnStatistics | None:
        """Return the statistics of a column; None if there are none.

        A value column that an object does not have is null in all of its rows.
        """
        rows = self._metadata.row_group(group).num_rows
        if self.is_packed and name not in OWN_COLUMNS:
            return None
        if name not in self._schema.names:
            return ColumnStatistics(pa.null(), rows, rows)
        return self.leaf_statistics(group, (name,))

    def leaf_statistics(self, group: int, path: tuple[str, ...]) -> ColumnStatistics | None:
        """Return the statistics of a column, or a field of a struct; None if there are none."""
        leaf = self._leaves.get(path)
        if leaf is None:
            return None
        at, arrow = leaf
        found = self._metadata.row_group(group).column(at).statistics
        rows = self._metadata.row_group(group).num_rows
        if found is None:
            return None
        nulls = found.null_count if found.has_null_count else None
        try:
            bounds = (found.min, found.max) if found.has_min_max else ()
        except (OverflowError, ValueError):
            bounds = ()  # Out of the range of Python's dates, or invalid UTF-8.
        return ColumnStatistics(arrow, rows, nulls, *bounds)

    def field_statistics(self, group: int, key: str, arrow: pa.DataType) -> ColumnStatistics | None:
        """Return the statistics of a payload field, read as a type; None if there are none."""
        known = (self._about.fields or {}).get(key, ())
        if len(known) != self._metadata.num_row_groups:
            return None
        found = known[group]
        low, high = unpacked(found.low, arrow), unpacked(found.high, arrow)
        if low is None or high is None:
            low = high = None
        rows = self._metadata.row_group(group).num_rows
        return ColumnStatistics(arrow, rows, found.nulls, low, high, found.nans)

    @property
    def is_packed(self) -> bool:
        """Whether each row is a whole batch."""
        return self._about.value_kind is ValueKind.BATCH and PACKED in self._schema.names

    @cached_property
    def _leaves(self) -> Mapping[tuple[str, ...], tuple[int, pa.DataType]]:
        """Maps the path of a column, or of a struct's field, to its index and type in the file."""
        leaves = [leaf for field in self._schema for leaf in _leaves_of(field, ())]
        if len(leaves) != self._metadata.num_columns:
            return {}
        return {path: (at, arrow) for at, (path, arrow) in enumerate(leaves) if path}

    @property
    def leaves(self) -> Sequence[tuple[str, ...]]:
        """The paths of columns, and of fields of structs, that are single values.

        Without the columns that only copies have, except the topic.
        """
        return [path for path in self._leaves if path[0] not in {DIGEST, SCHEMA_ID}]


def _leaves_of(
    field: pa.Field, within: tuple[str, ...] | None
) -> Iterator[tuple[tuple[str, ...] | None, pa.DataType]]:
    """Yield path and type of each column of a file; None as path inside lists and maps."""
    arrow = field.type
    path = None if within is None else (*within, field.name)
    if not pa.types.is_nested(arrow):
        yield path, arrow
        return
    inner = path if pa.types.is_struct(arrow) else None
    for number in range(arrow.num_fields):
        yield from _leaves_of(arrow.field(number), inner)


def footer_bytes(ending: bytes) -> int:
    """Return the size of an object's footer, given the object's last bytes."""
    return int.from_bytes(ending[-_ENDING_BYTES:-4], "little") + _ENDING_BYTES
