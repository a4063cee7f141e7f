"""The entries of a memory log as Arrow record batches."""

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
from strandline.log.memory_partition import Entry
from strandline.values import InvalidError, Partition, ValueKind

_ENTRIES_MAX = 4096
# A column of Arrow strings ends at 2 GiB.
_BYTES_MAX = 64 * 1024 * 1024


def record_batches(
    kind: ValueKind, partition: Partition, entries: Sequence[Entry]
) -> RecordBatches:
    """Return `entries` as record batches; InvalidError if their schemas cannot be united."""
    if kind is ValueKind.BATCH:
        return _of_batches(partition, entries)
    schema = EVENT_SCHEMA if kind is ValueKind.EVENT else BYTES_SCHEMA
    columns = _event_columns if kind is ValueKind.EVENT else _bytes_columns

    def batches() -> Iterator[pa.RecordBatch]:
        for page in _pages(entries):
            own = _own_columns(partition, page, [0] * len(page))
            yield pa.RecordBatch.from_arrays([*own, *columns(page)], schema=schema)

    return RecordBatches(schema, batches)


def _of_batches(partition: Partition, entries: Sequence[Entry]) -> RecordBatches:
    values = [load_batch(cast("bytes", entry.body)) for entry in entries]
    try:
        schema = batch_schema(value.schema for value in values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidError(
            "these records have one column with two types, read them apart", reason=str(error)
        ) from error

    def batches() -> Iterator[pa.RecordBatch]:
        for entry, value in zip(entries, values, strict=True):
            rows = range(value.num_rows)
            own = _own_columns(partition, [entry] * len(rows), rows)
            yield pa.RecordBatch.from_arrays([*own, *aligned(value, schema)], schema=schema)

    return RecordBatches(schema, batches)


def _pages(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    page: list[Entry] = []
    page_bytes = 0
    for entry in entries:
        if page and (len(page) == _ENTRIES_MAX or page_bytes + entry.size_bytes > _BYTES_MAX):
            yield page
            page, page_bytes = [], 0
        page.append(entry)
        page_bytes += entry.size_bytes
    if page:
        yield page


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
