"""Values checked and encoded for storage, and stored values decoded."""

from typing import Any, NamedTuple

import pyarrow as pa

from strandline.log.columns import OWN_COLUMNS
from strandline.log.history import Body, EventBody
from strandline.log.results import Value
from strandline.values import CorruptError, Event, InvalidError, Record, ValueKind
from strandline.values.batches import (
    check_structure,
    decode_batch,
    decode_schema,
    encode_measured,
)
from strandline.values.names import check_text

# Looking up an enumeration's members is slow, and so is calling a named tuple's class.
_EVENT = ValueKind.EVENT
_HOLDS = {
    ValueKind.EVENT: "this topic holds events, make one of the value with Event(kind, payload)",
    ValueKind.BYTES: "this topic holds bytes, append bytes or use a topic of events",
    ValueKind.BATCH: "this topic holds batches, append a pyarrow.RecordBatch",
}
_new: Any = tuple.__new__


class Draft(NamedTuple):
    """A value that was checked and copied, ready to be stored."""

    key: str | None
    body: Body
    size_bytes: int


def kind_of(value: object) -> ValueKind:
    """Return the kind of topic that may hold `value`; InvalidError if none may."""
    if isinstance(value, Event):
        return ValueKind.EVENT
    if isinstance(value, bytes):
        return ValueKind.BYTES
    if isinstance(value, pa.RecordBatch):
        return ValueKind.BATCH
    raise InvalidError(
        "a value is an Event, bytes or a pyarrow.RecordBatch, write Event(kind, payload) for JSON",
        type=type(value).__name__,
    )


def draft(value: Value, key: str | None, kind: ValueKind, bytes_max: int) -> Draft:
    """Return `value` ready to be stored; InvalidError if a topic of `kind` cannot hold it.

    `key` is the record's key, unless an event has its own; InvalidError if they differ.
    """
    parts = value.parts() if isinstance(value, Event) else None
    if key is not None:
        key = _checked_key(key, None if parts is None else parts[2])
    elif parts is not None:
        key = parts[2]
    size = 0 if key is None else len(key) if key.isascii() else len(key.encode())
    body: EventBody | None = None
    if parts is not None and kind is _EVENT:
        name, payload, _, headers, occurred_at_us = parts
        size += len(payload) + len(headers) + (len(name) if name.isascii() else len(name.encode()))
        body = _new(EventBody, (name, payload, headers, occurred_at_us))
    elif kind_of(value) is kind:
        size += _size_bytes(value)
    else:
        raise InvalidError(_HOLDS[kind], kind=str(kind), type=type(value).__name__)
    if size > bytes_max:
        raise InvalidError(
            "this record is too large, split it or open the log with a higher record_bytes_max",
            bytes=size,
            bytes_max=bytes_max,
        )
    drafted: Draft = _new(Draft, (key, body or _body(value), size))
    return drafted


def _checked_key(key: str, own: str | None) -> str:
    if own is None or key == own:
        return check_text(key, "key")
    raise InvalidError("the event has another key, give one of the two", key=key, event_key=own)


def load(kind: ValueKind, body: Body, key: str | None) -> Value:
    """Decode the value that was stored as `body`; it shares nothing with other readers."""
    if isinstance(body, EventBody):
        return Event.load(body.kind, body.payload_json, key, body.headers_json, body.occurred_at_us)
    return load_batch(body) if kind is ValueKind.BATCH else body


def load_batch(body: "bytes | pa.Buffer") -> pa.RecordBatch:
    """Return the batch that was stored as `body`; CorruptError if it is not valid.

    A checksum shows that the bytes are those written, not that they were valid Arrow data
    when they were written.
    """
    try:
        return decode_batch(body)
    except InvalidError as error:
        raise _invalid(error) from error


def stored_schema(body: "bytes | pa.Buffer") -> pa.Schema:
    """Return the schema of the batch stored as `body`; CorruptError if it is not valid."""
    try:
        return decode_schema(body)
    except InvalidError as error:
        raise _invalid(error) from error


def _invalid(error: InvalidError) -> CorruptError:
    return CorruptError(
        "the batch of this record is not valid Arrow data, skip or dead-letter it",
        file=None,
        position=None,
        reason=error.fields.get("reason", str(error)),
    )


def size_of(record: Record) -> int:
    """Return a read record's size as counted against limits, the same as its draft's."""
    key = 0 if record.key is None else len(record.key.encode())
    value = record.value
    if isinstance(value, Event):
        return key + len(value.payload_json) + len(value.headers_json) + len(value.kind.encode())
    return key + _size_bytes(value)


def _size_bytes(value: bytes | pa.RecordBatch) -> int:
    if isinstance(value, bytes):
        return len(value)
    # Arrow computes sizes from offsets, which may be wrong: check them first.
    check_structure(value)
    return int(value.nbytes)


def _body(value: bytes | pa.RecordBatch) -> Body:
    return bytes(value) if isinstance(value, bytes) else _batch_body(value)


def _batch_body(batch: pa.RecordBatch) -> pa.Buffer:
    names = batch.schema.names
    if batch.num_rows == 0:
        raise InvalidError("a batch has at least one row")
    if len(set(names)) < len(names):
        raise InvalidError("the columns of a batch need different names", columns=names)
    if taken := OWN_COLUMNS.intersection(names):
        raise InvalidError("these column names are reserved, rename them", columns=sorted(taken))
    # Its structure was checked: see `_size_bytes`.
    return encode_measured(batch)
