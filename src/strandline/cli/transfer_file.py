"""Exported records, exactly as they are: Parquet, or lines of JSON.

Both begin with what the topic is. A payload and headers are kept byte for byte; a batch
is kept as an Arrow stream. See docs/reference/cli.md for the fields.
"""

import base64
import io as streams
import itertools
from collections.abc import Iterable, Iterator
from typing import IO, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from strandline.cli.user_files import lines_of
from strandline.values import CorruptError, Event, InvalidError, Record, ValueKind
from strandline.values.arrow_input import read_arrow
from strandline.values.batches import decode_schema
from strandline.values.instants import datetime_at

_US = pa.timestamp("us", "UTC")
_PLACE = (
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _US),
    ("key", pa.string()),
    ("tenant", pa.string()),
)
_EVENT = (
    ("kind", pa.string()),
    ("payload", pa.string()),
    ("headers", pa.string()),
    ("occurred_at", _US),
)
_METADATA = b"strandline.export"
_ROWS = 16_384
_PARQUET_ROWS = 64


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the records are of."""

    strandline_export: Literal[1]
    log_id: str
    topic: str
    tenant: str | None
    topic_id: str
    kind: ValueKind
    partitions: int
    retention_age_s: int | None
    retention_bytes: int | None
    limit_bytes: int | None
    proof: bool
    created_at_us: int
    metadata: dict[str, str] = {}
    schemas: list[str] = []
    """The versions of a typed topic's schema, or the one that is declared for payloads, as
    Arrow serializes them, in base64."""


class Row(NamedTuple):
    """A record as it is kept in a file."""

    partition: int
    offset: int
    timestamp_us: int
    key: str | None
    tenant: str | None
    value: "Event | bytes | pa.RecordBatch"


class _EventLine(msgspec.Struct, forbid_unknown_fields=True):
    partition: int
    offset: int
    timestamp_us: int
    key: str | None
    tenant: str | None
    kind: str
    payload: msgspec.Raw
    headers: msgspec.Raw
    occurred_at_us: int | None


class _TransferBytes(msgspec.Struct, forbid_unknown_fields=True):
    partition: int
    offset: int
    timestamp_us: int
    key: str | None
    tenant: str | None
    value: str


_decode_header = msgspec.json.Decoder(Header).decode
_decode_event = msgspec.json.Decoder(_EventLine).decode
_decode_bytes = msgspec.json.Decoder(_TransferBytes).decode
_decode_any = msgspec.json.Decoder().decode


def write_lines(file: IO[bytes], header: Header, records: Iterable[Record]) -> int:
    """Write a line for the topic and one for each record; return how many records."""
    encode = msgspec.json.Encoder().encode
    file.write(encode(header) + b"\n")
    count = 0
    for record in records:
        file.write(encode(_line(record)) + b"\n")
        count += 1
    return count


def write_parquet(file: IO[bytes], header: Header, records: Iterable[Record]) -> int:
    """Write a row for each record, and the topic into the metadata; return how many."""
    from pyarrow import parquet  # noqa: PLC0415 Not for lines of JSON.

    schema = _schema(header.kind).with_metadata({_METADATA: msgspec.json.encode(header)})
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for piece in _pieces(records):
            writer.write_batch(_table_of(piece, header.kind, schema))
            count += len(piece)
    return count


def read_rows(file: IO[bytes], file_format: str) -> tuple[Header, Iterator[Row]]:
    """Return the topic and the records of a file; InvalidError for anything else."""
    if file_format == "parquet":
        return _read_parquet(file)
    lines = lines_of(file)
    header = _header(next(lines, b""))
    return header, _read_lines(lines, header.kind)


def _line(record: Record) -> _EventLine | _TransferBytes:
    place = (
        *(record.partition, record.offset, record.timestamp_us),
        *(record.key, record.tenant),
    )
    value = record.value
    if isinstance(value, Event):
        kind, payload, _, headers, occurred_at_us = value.parts()
        return _EventLine(*place, kind, msgspec.Raw(payload), msgspec.Raw(headers), occurred_at_us)
    return _TransferBytes(*place, base64.b64encode(_bytes_of(value)).decode())


def _bytes_of(value: "bytes | pa.RecordBatch") -> bytes:
    if isinstance(value, bytes):
        return value
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as stream:
        stream.write_batch(value)
    return bytes(sink.getvalue())


def packed_schema(schema: pa.Schema) -> str:
    """Return a schema as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpacked_schema(text: str) -> pa.Schema:
    """Return the schema that was packed; InvalidError for anything else."""
    try:
        return decode_schema(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise InvalidError("this is not a stored schema", reason=str(error)) from error


def _batch_of(stored: bytes) -> pa.RecordBatch:
    found = list(itertools.islice(read_arrow(streams.BytesIO(stored)), 2))
    if len(found) != 1:
        raise InvalidError("a stored record is an Arrow stream of one batch")
    return found[0]


def _pieces(records: Iterable[Record]) -> Iterator[list[Record]]:
    piece: list[Record] = []
    for record in records:
        piece.append(record)
        if len(piece) == _ROWS:
            yield piece
            piece = []
    if piece:
        yield piece


def _schema(kind: ValueKind) -> pa.Schema:
    value = _EVENT if kind is ValueKind.EVENT else (("value", pa.binary()),)
    return pa.schema((*_PLACE, *value))


def _table_of(records: list[Record], kind: ValueKind, schema: pa.Schema) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [each.partition for each in records],
        [each.offset for each in records],
        [each.timestamp_us for each in records],
        [each.key for each in records],
        [each.tenant for each in records],
    ]
    if kind is ValueKind.EVENT:
        kinds, payloads, _, headers, times = Event.columns(each.event for each in records)
        columns += [list(kinds), _texts(payloads), _texts(headers), list(times)]
    else:
        columns.append([_bytes_of(each.value) for each in records])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _texts(stored: Iterable[bytes]) -> list[str]:
    return [each.decode() for each in stored]


def _header(stored: bytes) -> Header:
    try:
        return _decode_header(stored)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(
            "this file was not made by strandline export", reason=str(error)
        ) from error


def _read_lines(lines: Iterable[bytes], kind: ValueKind) -> Iterator[Row]:
    for number, line in enumerate(lines, 2):
        try:
            if kind is ValueKind.EVENT:
                yield _event_row(_decode_event(line))
            else:
                stored = _decode_bytes(line)
                yield _bytes_row(stored, base64.b64decode(stored.value, validate=True), kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidError(
                "this line is no exported record", line=number, reason=str(error)
            ) from error


def _read_parquet(file: IO[bytes]) -> tuple[Header, Iterator[Row]]:
    from pyarrow import parquet  # noqa: PLC0415 Not for lines of JSON.

    try:
        stored = parquet.ParquetFile(file)
        schema = stored.schema_arrow
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InvalidError("this is not a Parquet file", reason=str(error)) from error
    header = _header((schema.metadata or {}).get(_METADATA, b""))
    if not schema.equals(_schema(header.kind)):
        raise InvalidError("this file has other columns than an export", kind=str(header.kind))
    return header, _parquet_rows(stored, header.kind)


def _parquet_rows(stored: Any, kind: ValueKind) -> Iterator[Row]:
    for partition, offset, timestamp_us, key, tenant, *value in _parquet_values(stored):
        required = value[:3] if kind is ValueKind.EVENT else value
        if None in (partition, offset, timestamp_us, *required):
            raise InvalidError(
                "a record has a partition, an offset, a time and a value", offset=offset
            )
        place = partition, offset, timestamp_us, key, tenant
        if kind is ValueKind.EVENT:
            name, payload, headers, occurred_at_us = value
            raw = msgspec.Raw(payload.encode()), msgspec.Raw(headers.encode())
            yield _event_row(_EventLine(*place, name, *raw, occurred_at_us))
        else:
            yield _bytes_row(_TransferBytes(*place, ""), value[0], kind)


def _parquet_values(stored: Any) -> Iterator[tuple[Any, ...]]:
    try:
        # Few at a time: any number of rows may refer to one value of a dictionary.
        for batch in stored.iter_batches(batch_size=_PARQUET_ROWS):
            columns = [
                column.cast(pa.int64()) if column.type == _US else column
                for column in batch.columns
            ]
            yield from zip(*(column.to_pylist() for column in columns), strict=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InvalidError("this Parquet file is damaged", reason=str(error)) from error


def _event_row(line: _EventLine) -> Row:
    payload, headers = bytes(line.payload), bytes(line.headers)
    event = Event.load(line.kind, payload, line.key, headers, line.occurred_at_us)
    # What was edited is checked as any other event: one that is refused is not loaded.
    try:
        Event(
            line.kind,
            _decode_any(payload),
            key=line.key,
            headers=_decode_any(headers),
            occurred_at=event.occurred_at,
        )
    except (msgspec.MsgspecError, ValueError, RecursionError, CorruptError) as error:
        raise InvalidError(
            "this record is not one that could be appended", offset=line.offset, reason=str(error)
        ) from error
    return _row(line, event)


def _bytes_row(line: _TransferBytes, value: bytes, kind: ValueKind) -> Row:
    held = _batch_of(value) if kind is ValueKind.BATCH else value
    return _row(line, held)


def _row(line: _EventLine | _TransferBytes, value: "Event | bytes | pa.RecordBatch") -> Row:
    try:
        datetime_at(line.timestamp_us)
    except OverflowError:
        raise InvalidError(
            "a timestamp lies within the years 1 to 9999", timestamp_us=line.timestamp_us
        ) from None
    return Row(line.partition, line.offset, line.timestamp_us, line.key, line.tenant, value)
