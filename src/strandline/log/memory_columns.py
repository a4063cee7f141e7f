"""The entries of a memory log as Arrow record batches."""

from collections.abc import Iterator, Sequence
from typing import cast

import pyarrow as pa

from strandline.log.columns import BYTES_SCHEMA, EVENT_SCHEMA, RecordBatches, aligned, batch_schema
from strandline.log.draft import load_batch
from strandline.log.memory_partition import Entry
from strandline.log.page_columns import bytes_columns, event_columns, own_columns
from strandline.values import Partition, ValueKind

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
    columns = event_columns if kind is ValueKind.EVENT else bytes_columns

    def batches() -> Iterator[pa.RecordBatch]:
        for page in _pages(entries):
            own = own_columns(partition, page, [0] * len(page))
            yield pa.RecordBatch.from_arrays([*own, *columns(page)], schema=schema)

    return RecordBatches(schema, batches)


def _of_batches(partition: Partition, entries: Sequence[Entry]) -> RecordBatches:
    values = [load_batch(cast("bytes", entry.body)) for entry in entries]
    schema = batch_schema(value.schema for value in values)

    def batches() -> Iterator[pa.RecordBatch]:
        for entry, value in zip(entries, values, strict=True):
            rows = range(value.num_rows)
            own = own_columns(partition, [entry] * len(rows), rows)
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
