"""Records as Arrow record batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from strandline.log.arrow_streams import ARROW_STREAMS
from strandline.log.results import Batches
from strandline.values import TopicSettings, ValueKind
from strandline.values.prompt import few, prompt_text
from strandline.values.widening import fitted, united

RECORD_FIELDS = (
    pa.field("_partition", pa.int32(), nullable=False),
    pa.field("_offset", pa.int64(), nullable=False),
    pa.field("_row", pa.int32(), nullable=False),
    pa.field("_timestamp", pa.timestamp("us", "UTC"), nullable=False),
    pa.field("_key", pa.string()),
    pa.field("_tenant", pa.string()),
)
OWN_COLUMNS = frozenset(field.name for field in RECORD_FIELDS)

EVENT_SCHEMA = pa.schema(
    [
        *RECORD_FIELDS,
        pa.field("kind", pa.string(), nullable=False),
        pa.field("payload", pa.string(), nullable=False),
        pa.field("headers", pa.string(), nullable=False),
        pa.field("occurred_at", pa.timestamp("us", "UTC")),
    ]
)
BYTES_SCHEMA = pa.schema([*RECORD_FIELDS, pa.field("value", pa.binary(), nullable=False)])
HEADER_LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""Headers of topics written by other programs: ordered, names may repeat."""
SOURCE_SCHEMA = pa.schema(
    [
        *RECORD_FIELDS,
        pa.field("value", pa.binary()),
        pa.field("headers", HEADER_LIST, nullable=False),
    ]
)


def plain_schema(settings: TopicSettings) -> pa.Schema:
    """Return the columns of a topic of events or bytes."""
    if settings.source is not None:
        return SOURCE_SCHEMA
    return EVENT_SCHEMA if settings.value_kind is ValueKind.EVENT else BYTES_SCHEMA


def batch_schema(schemas: "Iterable[pa.Schema]") -> pa.Schema:
    """Return the schema that records of all these schemas are read with.

    Of several versions of one schema, the newest counts. Raises as `united` does.
    """
    # Records of one schema may lack a column of another.
    return pa.schema(
        field if field.name in OWN_COLUMNS else field.with_nullable(True)
        for field in united([pa.schema(RECORD_FIELDS), *schemas])
    )


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> "list[pa.Array]":
    """Return the value columns of `schema` for the rows of `batch`, null where it has none."""
    names = set(batch.schema.names)
    return [
        fitted(batch.column(field.name), field.type)
        if field.name in names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
        if field.name not in OWN_COLUMNS
    ]


class RecordBatches:
    """Implements Batches over a function that makes record batches of one schema."""

    def __init__(
        self,
        schema: pa.Schema,
        batches: "Callable[[], Iterator[pa.RecordBatch]]",
        narrowed: "Callable[[pa.Schema], Iterator[pa.RecordBatch]] | None" = None,
    ) -> None:
        """`narrowed` makes batches with fewer columns, if that is less work."""
        self._schema = schema
        self._batches = batches
        self._narrowed = narrowed

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def __repr__(self) -> str:
        return prompt_text("Batches", few(self._schema.names))

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        return self._batches()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = ARROW_STREAMS.reader(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def narrowed(self, names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """See NarrowingBatches."""
        if self._narrowed is None:
            return (batch.select(names) for batch in self._batches())
        return self._narrowed(pa.schema([self._schema.field(name) for name in names]))


@runtime_checkable
class NarrowingBatches(Batches, Protocol):
    """Batches that can be read faster with fewer columns."""

    def narrowed(self, names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """Yield the same rows with only these columns, in this order."""


def narrowed(batches: Batches, names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """Yield the same rows with only these columns, in this order."""
    if isinstance(batches, NarrowingBatches):
        return batches.narrowed(names)
    return (batch.select(names) for batch in batches)


def shared_columns(batches: Batches, schema: pa.Schema) -> "Iterator[pa.RecordBatch]":
    """Yield the same rows with only `_offset` and the columns that `schema` has."""
    wanted = {*schema.names, "_offset"}
    names = [name for name in batches.schema.names if name in wanted]
    return iter(batches) if len(names) == len(batches.schema) else narrowed(batches, names)
