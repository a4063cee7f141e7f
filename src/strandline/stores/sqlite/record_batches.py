"""Records as Arrow record batches, a page at a time."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from strandline.log.columns import BYTES_SCHEMA, EVENT_SCHEMA, RecordBatches, aligned, batch_schema
from strandline.log.draft import load_batch, stored_schema
from strandline.log.page_columns import bytes_columns, event_columns, own_columns
from strandline.stores.sqlite.records import Records, Span
from strandline.values import InvalidError, ValueKind


def record_batches(kind: ValueKind, records: Records, span: Span) -> RecordBatches:
    """Return the records of `span`; InvalidError if their schemas cannot be united."""
    if kind is ValueKind.BATCH:
        return _of_batches(records, span)
    schema = EVENT_SCHEMA if kind is ValueKind.EVENT else BYTES_SCHEMA
    columns = event_columns if kind is ValueKind.EVENT else bytes_columns

    def batches() -> Iterator[pa.RecordBatch]:
        for page in records.pages(span):
            own = own_columns(records.partition, page, [0] * len(page))
            yield pa.RecordBatch.from_arrays([*own, *columns(page)], schema=schema)

    return RecordBatches(schema, batches)


def _of_batches(records: Records, span: Span) -> RecordBatches:
    # Read twice rather than kept: the schema has to be known before the first batch.
    schemas: list[pa.Schema] = []
    for entry in records.entries(span):
        schema = stored_schema(cast("bytes", entry.body))
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
            own = own_columns(records.partition, [entry] * len(rows), rows)
            yield pa.RecordBatch.from_arrays([*own, *aligned(value, united)], schema=united)

    return RecordBatches(united, batches)
