"""Stored records as Arrow record batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

import pyarrow as pa

from strandline.log.columns import (
    BYTES_SCHEMA,
    EVENT_SCHEMA,
    HEADER_LIST,
    RECORD_FIELDS,
    SOURCE_SCHEMA,
    RecordBatches,
    aligned,
    batch_schema,
)
from strandline.log.draft import load_batch, stored_schema
from strandline.log.history import EventBody, Kept
from strandline.log.stored_records import EventLists, StoredRecords
from strandline.values import Partition, SourceMessage, ValueKind

Pages: TypeAlias = Callable[[], Iterator[Sequence[Kept]]]
"""Reads the records from the start each time, in bounded pages."""


def record_batches(kind: ValueKind, partition: Partition, pages: Pages) -> RecordBatches:
    """Return the records as record batches; InvalidError if their schemas cannot be united."""
    if kind is ValueKind.BATCH:
        return batches_of_batches(partition, pages)
    schema = EVENT_SCHEMA if kind is ValueKind.EVENT else BYTES_SCHEMA
    return RecordBatches(
        schema, lambda: (page_batch(kind, partition, page, schema) for page in pages())
    )


def source_batches(partition: Partition, pages: Pages) -> RecordBatches:
    """Return the records of a topic that other programs write, as record batches."""

    def batch(page: Sequence[Kept]) -> pa.RecordBatch:
        own = own_columns(partition, page, [0] * len(page))
        values = [cast("SourceMessage", entry.body) for entry in page]
        headers = [
            [{"key": name, "value": value} for name, value in each.headers] for each in values
        ]
        columns = [
            pa.array([None if each.is_null else bytes(each) for each in values], pa.binary()),
            pa.array(headers, HEADER_LIST),
        ]
        return pa.RecordBatch.from_arrays([*own, *columns], schema=SOURCE_SCHEMA)

    return RecordBatches(SOURCE_SCHEMA, lambda: map(batch, pages()))


def page_batch(
    kind: ValueKind, partition: Partition, page: Sequence[Kept], schema: pa.Schema
) -> pa.RecordBatch:
    """Return a page of events or bytes as one record batch."""
    if isinstance(page, StoredRecords):
        lists = page.event_columns()
        if lists is not None:
            return pa.RecordBatch.from_arrays(_columns_of_lists(partition, lists), schema=schema)
        page = [*page]
    own = own_columns(partition, page, [0] * len(page))
    columns = event_columns if kind is ValueKind.EVENT else bytes_columns
    return pa.RecordBatch.from_arrays([*own, *columns(page)], schema=schema)


def _columns_of_lists(partition: Partition, lists: EventLists) -> "list[pa.Array]":
    """Return the columns of RECORD_FIELDS and EVENT_SCHEMA."""
    offsets, timestamps_us, keys, tenants, kinds, payloads, headers, occurred_at_us = lists
    return [
        pa.array([partition] * len(keys), pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([0] * len(keys), pa.int32()),
        pa.array(timestamps_us, pa.timestamp("us", "UTC")),
        pa.array(keys, pa.string()),
        pa.array(tenants, pa.string()),
        pa.array(kinds, pa.string()),
        pa.array(payloads, pa.string()),
        pa.array(headers, pa.string()),
        pa.array(occurred_at_us, pa.timestamp("us", "UTC")),
    ]


def batches_of_batches(partition: Partition, pages: Pages) -> RecordBatches:
    """Return records of batches, one record batch for each record."""
    # Read twice rather than cached: the schema must be known before the first batch.
    schemas: list[pa.Schema] = []
    for page in pages():
        for record in page:
            schema = stored_schema(cast("bytes", record.body))
            if not schemas or not schema.equals(schemas[-1], check_metadata=True):
                schemas.append(schema)
    united = batch_schema(schemas)

    def batches() -> Iterator[pa.RecordBatch]:
        for record, value in _values(pages):
            own = _own_columns_of_one(partition, record, value.num_rows)
            yield pa.RecordBatch.from_arrays([*own, *aligned(value, united)], schema=united)

    return RecordBatches(united, batches)


def _values(pages: Pages) -> Iterator[tuple[Kept, pa.RecordBatch]]:
    for page in pages():
        for record in page:
            yield record, load_batch(cast("bytes", record.body))


def own_columns(
    partition: Partition, page: Sequence[Kept], rows: Sequence[int]
) -> "list[pa.Array]":
    """Return the columns of RECORD_FIELDS, a row for each entry of the page."""
    return [
        pa.array([partition] * len(page), pa.int32()),
        pa.array([entry.offset for entry in page], pa.int64()),
        pa.array(rows, pa.int32()),
        pa.array([entry.timestamp_us for entry in page], pa.timestamp("us", "UTC")),
        pa.array([entry.key for entry in page], pa.string()),
        pa.array([entry.tenant for entry in page], pa.string()),
    ]


def _own_columns_of_one(partition: Partition, record: Kept, rows: int) -> "list[pa.Array]":
    """Return the columns of RECORD_FIELDS for the rows of one record."""
    own = (partition, record.offset, None, record.timestamp_us, record.key, record.tenant)
    return [
        pa.array(range(rows), field.type)
        if field.name == "_row"
        else pa.repeat(pa.scalar(value, field.type), rows)
        for field, value in zip(RECORD_FIELDS, own, strict=True)
    ]


def event_columns(page: Sequence[Kept]) -> "list[pa.Array]":
    """Return the value columns of EVENT_SCHEMA."""
    bodies = [cast("EventBody", entry.body) for entry in page]
    return [
        pa.array([body.kind for body in bodies], pa.string()),
        pa.array([body.payload_json for body in bodies], pa.string()),
        pa.array([body.headers_json for body in bodies], pa.string()),
        pa.array([body.occurred_at_us for body in bodies], pa.timestamp("us", "UTC")),
    ]


def bytes_columns(page: Sequence[Kept]) -> "list[pa.Array]":
    """Return the value column of BYTES_SCHEMA."""
    return [pa.array([entry.body for entry in page], pa.binary())]
