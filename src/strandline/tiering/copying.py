"""A run of records read from a log and made into one object."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa

from strandline.log.protocol import Log
from strandline.tiering.arrow_parts import compute
from strandline.tiering.parquet import (
    OWN_COLUMNS,
    PACKED,
    About,
    CopiedRows,
    digest_of,
    encode,
    packed_schema,
    record_sizes,
)
from strandline.tiering.segment import UserPartition
from strandline.values import Epoch, ValueKind

#: How much of a run that has no end of its own goes into one object.
PIECE_RECORDS: Final = 256 * 1024
PIECE_BYTES: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """One object to be: its content, and what the catalogue is told of it."""

    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    first_us: int
    last_us: int
    record_bytes: int
    digest: str
    content: bytes


def read_piece(
    log: Log, place: UserPartition, start: int, end: int, *, bytes_max: int | None = None
) -> Piece:
    """Return [start, end), or as much of it as fits one object.

    It ends early at `bytes_max`, and in a batch topic where the schema changes: an
    object has one.
    """
    topic = place.named()
    kind = log.describe_topic(topic).settings.value_kind
    schema = None
    sizes = 0
    if kind is ValueKind.BATCH:
        end, schema, sizes = _same_schema(log, place, start, end, bytes_max)
        bytes_max = None
    source = log.read_batches(topic, place.partition, start, end, bytes_max=bytes_max)
    table = pa.Table.from_batches(list(source), schema=source.schema)
    if kind is not ValueKind.BATCH:
        sizes = sum(compute().sum(record_sizes(b, kind)).as_py() for b in table.to_batches())
    stamps = table.column("_timestamp").cast(pa.int64())
    end = table.column("_offset")[table.num_rows - 1].as_py() + 1
    epochs = epochs_within(log.epochs(topic, place.partition), start, end)
    about = About(
        log_id=log.id,
        topic_id=place.topic_id,
        topic=place.topic,
        partition=place.partition,
        start=start,
        end=end,
        epochs=epochs,
        value_kind=kind,
        rows=table.num_rows,
        schema=None if schema is None else packed_schema(schema),
    )
    if schema is None:
        content = encode(table.to_batches(), about)
    else:
        content = _encoded_batches(log, place, table, about)
    return Piece(
        start,
        end,
        epochs,
        stamps[0].as_py(),
        stamps[len(stamps) - 1].as_py(),
        sizes,
        digest_of(content),
        content,
    )


def epochs_within(epochs: Sequence[Epoch], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return number and first offset of each epoch that has records in [start, end)."""
    ends = [int(each.start) for each in epochs[1:]] + [end]
    return tuple(
        (each.number, max(start, each.start))
        for each, following in zip(epochs, ends, strict=True)
        if max(start, each.start) < min(end, following)
    )


def _same_schema(
    log: Log, place: UserPartition, start: int, end: int, bytes_max: int | None
) -> tuple[int, pa.Schema, int]:
    """Return where the batches from `start` on get another schema, theirs, and their size."""
    schema: pa.Schema | None = None
    sizes = 0
    for record in log.read(place.named(), place.partition, start, end, bytes_max=bytes_max):
        value = record.value
        assert isinstance(value, pa.RecordBatch)
        if schema is None:
            schema = value.schema
        elif not schema.equals(value.schema, check_metadata=True):
            return record.offset, schema, sizes
        sizes += value.nbytes + len((record.key or "").encode())
        end = record.offset + 1
    assert schema is not None
    return end, schema, sizes


def _encoded_batches(log: Log, place: UserPartition, table: pa.Table, about: About) -> bytes:
    """Return batches as columns of their own, or packed where Parquet would change them."""
    values = _values(log, place, about)
    try:
        content = encode(table.to_batches(), about)
        rows = CopiedRows(content, "a new object")
        found = (
            value
            for batch in rows.batches(about.start, about.end)
            for _, value in rows.values(batch)
        )
        if all(_is_same(one, other) for one, other in zip(found, values, strict=True)):
            return content
    except (pa.ArrowException, ValueError):
        pass  # No place for one of the types.
    firsts = table.select(list(OWN_COLUMNS)).filter(compute().equal(table.column("_row"), 0))
    packed = [_stream(value) for value in _values(log, place, about)]
    table = firsts.append_column(
        pa.field(PACKED, pa.binary(), nullable=False), pa.array(packed, pa.binary())
    )
    return encode(table.to_batches(), msgspec.structs.replace(about, rows=len(packed)))


def _values(log: Log, place: UserPartition, about: About) -> Iterator[pa.RecordBatch]:
    for record in log.read(place.named(), place.partition, about.start, about.end):
        assert isinstance(record.value, pa.RecordBatch)
        yield record.value


def _is_same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    if not one.schema.equals(other.schema, check_metadata=True):
        return False
    # The second is for NaN, which equals nothing.
    return bool(one.equals(other)) or _stream(_plain(one)) == _stream(_plain(other))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy without leftovers of what it was cut from."""
    return batch.take(pa.arange(0, batch.num_rows))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    stored: bytes = sink.getvalue().to_pybytes()
    return stored
