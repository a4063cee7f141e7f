"""Converts the rows of a copy to a log's records and record batches."""

from collections.abc import Container, Iterator
from typing import NamedTuple

import pyarrow as pa

from strandline.log import Body, EventBody
from strandline.tiering.arrow_parts import compute
from strandline.tiering.parquet import OWN_COLUMNS, PACKED, CopiedRows
from strandline.tiering.segment import UserPartition
from strandline.values import Event, Offset, Partition, Record, Tenant, ValueKind
from strandline.values.row_selection import taken

#: The columns needed to slice and count records.
_PLACE_COLUMNS = ("_offset", "_row")


def records_of(rows: CopiedRows, batch: pa.RecordBatch, place: UserPartition) -> Iterator[Record]:
    """Yield the records of one batch of `rows`."""
    if rows.about.value_kind is ValueKind.BATCH:
        values: list[object] = [value for _, value in rows.values(batch)]
        batch = _firsts(batch)
    elif rows.about.value_kind is ValueKind.EVENT:
        values = list(_events(batch))
    else:
        values = batch.column("value").to_pylist()
    name, partition = place.topic, Partition(place.partition)
    for offset, stamp, key, tenant, value in zip(
        batch.column("_offset").to_pylist(),
        batch.column("_timestamp").cast(pa.int64()).to_pylist(),
        batch.column("_key").to_pylist(),
        batch.column("_tenant").to_pylist(),
        values,
        strict=True,
    ):
        whose = None if tenant is None else Tenant(tenant)
        yield Record(name, partition, Offset(offset), stamp, key, whose, value)


class ColdEntry(NamedTuple):
    """A record in a copy."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body


def entries_of(rows: CopiedRows, batch: pa.RecordBatch) -> Iterator[ColdEntry]:
    """Yield the records of one batch of `rows`, with bodies as the log stored them."""
    bodies: list[Body]
    if rows.about.value_kind is ValueKind.BATCH:
        bodies = list(_batch_bodies(rows, batch))
        batch = _firsts(batch)
    elif rows.about.value_kind is ValueKind.EVENT:
        columns = (
            batch.column("kind").to_pylist(),
            batch.column("payload").cast(pa.binary()).to_pylist(),
            batch.column("headers").cast(pa.binary()).to_pylist(),
            batch.column("occurred_at").cast(pa.int64()).to_pylist(),
        )
        bodies = [EventBody(*parts) for parts in zip(*columns, strict=True)]
    else:
        bodies = batch.column("value").to_pylist()
    for parts in zip(
        batch.column("_offset").to_pylist(),
        batch.column("_timestamp").cast(pa.int64()).to_pylist(),
        batch.column("_key").to_pylist(),
        batch.column("_tenant").to_pylist(),
        bodies,
        strict=True,
    ):
        yield ColdEntry(*parts)


def _batch_bodies(rows: CopiedRows, batch: pa.RecordBatch) -> Iterator[bytes]:
    if rows.is_packed:
        yield from batch.column(PACKED).to_pylist()
    else:
        for _, value in rows.values(batch):
            # Copied, without the rest of the batch that it is a slice of. For a proof it must
            # be byte for byte the same, so types that `take` does not support are serialized.
            every = pa.arange(0, value.num_rows)
            is_proved = rows.about.chain is not None
            yield stream_of(value.take(every) if is_proved else taken(value, every))


def _firsts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the log's own columns, of the first row of each record."""
    own = batch.select(list(OWN_COLUMNS))
    return own.filter(compute().equal(own.column("_row"), 0))


def stream_of(batch: pa.RecordBatch) -> bytes:
    """Serialize a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    stored: bytes = sink.getvalue().to_pybytes()
    return stored


def _events(batch: pa.RecordBatch) -> Iterator[Event]:
    for parts in zip(
        batch.column("kind").to_pylist(),
        batch.column("payload").cast(pa.binary()).to_pylist(),
        batch.column("_key").to_pylist(),
        batch.column("headers").cast(pa.binary()).to_pylist(),
        batch.column("occurred_at").cast(pa.int64()).to_pylist(),
        strict=True,
    ):
        yield Event.load(*parts)


def batches_of(
    rows: CopiedRows, start: int, stop: int, names: Container[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of [start, stop); only these columns are needed."""
    read = [name for name in rows.schema.names if name in names or name in _PLACE_COLUMNS]
    for batch in rows.batches(start, stop, None if rows.is_packed else read):
        if not rows.is_packed:
            yield batch
            continue
        own = batch.select(list(OWN_COLUMNS))
        for at, value in rows.values(batch):
            count = value.num_rows
            first = own.take(pa.repeat(pa.scalar(at, pa.int64()), count))
            arrays = [*first.columns, *value.columns]
            arrays[OWN_COLUMNS.index("_row")] = pa.arange(0, count).cast(pa.int32())
            fields = [*own.schema, *value.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
