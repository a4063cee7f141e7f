"""A value on its way into a log, and back out of it."""

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

# Members of an enumeration are slow to look up, and so is what makes a named tuple.
_EVENT = ValueKind.EVENT
_HOLDS = {
    ValueKind.EVENT: "this topic holds events, make one of the value with Event(kind, payload)",
    ValueKind.BYTES: "this topic holds bytes, append bytes or use a topic of events",
    ValueKind.BATCH: "this topic holds batches, append a pyarrow.RecordBatch",
}
_new: Any = tuple.__new__


class Draft(NamedTuple):
    """A value that was checked, copied, and may be stored as it is."""

    key: str | None
    body: Body
    size_bytes: int


def kind_of(value: object) -> ValueKind:
    """Return what kind of topic `value` belongs in; InvalidError if it is no value of a record."""
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
    """Return `value` ready to be stored; InvalidError if a topic of `kind` may not hold it.

    `key` is the record's, unless an event has its own; InvalidError if these differ.
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
    raise InvalidError("the event has another key, pass one of them", key=key, event_key=own)


def load(kind: ValueKind, body: Body, key: str | None) -> Value:
    """Return the value that was stored as `body`: a new one, that is not shared."""
    if isinstance(body, EventBody):
        return Event.load(body.kind, body.payload_json, key, body.headers_json, body.occurred_at_us)
    return load_batch(body) if kind is ValueKind.BATCH else body


def load_batch(body: "bytes | pa.Buffer") -> pa.RecordBatch:
    """Return the batch that was stored as `body`; CorruptError if it is not valid.

    A checksum shows that the bytes are those that were written, and not that they
    were validated before.
    """
    try:
        return decode_batch(body)
    except InvalidError as error:
        raise _invalid(error) from error


def stored_schema(body: "bytes | pa.Buffer") -> pa.Schema:
    """Return the schema of the batch that was stored as `body`; CorruptError for nonsense."""
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
    """Return what a record that was read counts: as much as its draft did."""
    key = 0 if record.key is None else len(record.key.encode())
    value = record.value
    if isinstance(value, Event):
        return key + len(value.payload_json) + len(value.headers_json) + len(value.kind.encode())
    return key + _size_bytes(value)


def _size_bytes(value: bytes | pa.RecordBatch) -> int:
    if isinstance(value, bytes):
        return len(value)
    # Arrow measures by offsets, which may lie.
    check_structure(value)
    return int(value.nbytes)


def _body(value: bytes | pa.RecordBatch) -> Body:
    return bytes(value) if isinstance(value, bytes) else _batch_body(value)


def _batch_body(batch: pa.RecordBatch) -> pa.Buffer:
    names = batch.schema.names
    if batch.num_rows == 0:
        raise InvalidError("a batch has at least one row")
    if len(set(names)) < len(names):
        raise InvalidError("a batch has no two columns of one name", columns=names)
    if taken := OWN_COLUMNS.intersection(names):
        raise InvalidError("these columns are the log's own, rename them", columns=sorted(taken))
    # It was measured: see `_size_bytes`.
    return encode_measured(batch)
