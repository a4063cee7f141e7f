"""Records as Arrow record batches, a page at a time."""

from collections.abc import Iterator, Sequence
from typing import cast

import pyarrow as pa

from strandline.log.columns import (
    BYTES_SCHEMA,
    EVENT_SCHEMA,
    RecordBatches,
    aligned,
    batch_schema,
)
from strandline.log.draft import EventBody, load_batch
from strandline.log.sqlite.records import Entry, Records, Span
from strandline.values import InvalidError, Partition, ValueKind


def record_batches(kind: ValueKind, records: Records, span: Span) -> RecordBatches:
    """Return the records of `span`; InvalidError if their schemas cannot be united."""
    if kind is ValueKind.BATCH:
        return _of_batches(records, span)
    schema = EVENT_SCHEMA if kind is ValueKind.EVENT else BYTES_SCHEMA
    columns = _event_columns if kind is ValueKind.EVENT else _bytes_columns

    def batches() -> Iterator[pa.RecordBatch]:
        for page in records.pages(span):
            own = _own_columns(records.partition, page, [0] * len(page))
            yield pa.RecordBatch.from_arrays([*own, *columns(page)], schema=schema)

    return RecordBatches(schema, batches)


def _of_batches(records: Records, span: Span) -> RecordBatches:
    # Read twice rather than kept: the schema has to be known before the first batch.
    schemas: list[pa.Schema] = []
    for entry in records.entries(span):
        schema = load_batch(cast("bytes", entry.body)).schema
        if not schemas or not schema.equals(schemas[-1], check_metadata=True):
            schemas.append(schema)
    try:
        united = batch_schema(schemas)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidError(
            "these records have one column with two types, read them apart", reason=str(error)
        ) from error

    def batches() -> Iterator[pa.RecordBatch]:
        for entry in records.entries(span):
            value = load_batch(cast("bytes", entry.body))
            rows = range(value.num_rows)
            own = _own_columns(records.partition, [entry] * len(rows), rows)
            yield pa.RecordBatch.from_arrays([*own, *aligned(value, united)], schema=united)

    return RecordBatches(united, batches)


def _own_columns(
    partition: Partition, page: Sequence[Entry], rows: Sequence[int]
) -> "list[pa.Array]":
    return [
        pa.array([partition] * len(page), pa.int32()),
        pa.array([entry.offset for entry in page], pa.int64()),
        pa.array(rows, pa.int32()),
        pa.array([entry.timestamp_us for entry in page], pa.timestamp("us", "UTC")),
        pa.array([entry.key for entry in page], pa.string()),
        pa.array([entry.tenant for entry in page], pa.string()),
    ]


def _event_columns(page: Sequence[Entry]) -> "list[pa.Array]":
    bodies = [cast("EventBody", entry.body) for entry in page]
    return [
        pa.array([body.kind for body in bodies], pa.string()),
        pa.array([body.payload_json for body in bodies], pa.string()),
        pa.array([body.headers_json for body in bodies], pa.string()),
        pa.array([body.occurred_at_us for body in bodies], pa.timestamp("us", "UTC")),
    ]


def _bytes_columns(page: Sequence[Entry]) -> "list[pa.Array]":
    return [pa.array([entry.body for entry in page], pa.binary())]
