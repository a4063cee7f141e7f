"""Decode values to append from a request's body: JSON, JSON lines, CloudEvents, bytes, Arrow."""

import base64
import binascii
import io as streams
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from strandline.log import Value
from strandline.server.endpoint import ARROW, JSON, NDJSON, OCTETS
from strandline.server.media import check_utf8
from strandline.server.problems import RequestError
from strandline.values import RECORD_BYTES_MAX, REQUEST_RECORDS_MAX, Event, InvalidError, ValueKind
from strandline.values.arrow_input import read_arrow
from strandline.values.unreadable_json import why_unreadable

CLOUD_EVENT: Final = "application/cloudevents+json"
CLOUD_EVENTS: Final = "application/cloudevents-batch+json"
_SMALL_BYTES: Final = 64 * 1024
_CE: Final = "ce-"
_CE_VERSION: Final = "1.0"
_OCCURRED_AT: Final = pa.timestamp("us", tz="UTC")


class AppendedEvent(msgspec.Struct, forbid_unknown_fields=True):
    """An event to append."""

    kind: str
    payload: Any = None
    key: str | None = None
    headers: dict[str, str] = {}
    occurred_at: datetime | None = None


class AppendedBytes(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes to append, in base64."""

    value: str
    key: str | None = None


class _LargeEvent(msgspec.Struct, forbid_unknown_fields=True):
    """An event whose payload is decoded later, so that its objects do not stay in memory."""

    kind: str
    payload: msgspec.Raw = msgspec.Raw(b"null")
    key: str | None = None
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    occurred_at: datetime | None = None


class _CloudHead(msgspec.Struct):
    """The required fields of a CloudEvent, to count events before they are decoded."""

    id: str
    source: str
    type: str
    specversion: str


class Values(NamedTuple):
    """Values to append, and keys for values without their own."""

    values: Sequence[Value]
    keys: Sequence[str | None] | None = None


_TAKEN: Final = {
    ValueKind.EVENT: (JSON, NDJSON, CLOUD_EVENT, CLOUD_EVENTS, ARROW),
    ValueKind.BYTES: (OCTETS, JSON, NDJSON, ARROW),
    ValueKind.BATCH: (ARROW,),
}
_event: Final = msgspec.json.Decoder(AppendedEvent).decode
_events: Final = msgspec.json.Decoder(list[AppendedEvent]).decode
_large_event: Final = msgspec.json.Decoder(_LargeEvent).decode
_large_events: Final = msgspec.json.Decoder(list[_LargeEvent]).decode
_bytes: Final = msgspec.json.Decoder(AppendedBytes).decode
_many_bytes: Final = msgspec.json.Decoder(list[AppendedBytes]).decode
_cloud_event: Final = msgspec.json.Decoder(dict[str, Any]).decode
_cloud_heads: Final = msgspec.json.Decoder(list[_CloudHead]).decode
_parts: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def values_of(
    body: bytes, headers: Mapping[str, str], kind: ValueKind, key: str | None, bytes_max: int
) -> Values:
    """Return the values in a body for a topic of this kind; InvalidError if they do not match.

    `key` is the key of each value without one. Arrow data is decompressed to at most `bytes_max`.
    """
    content_type = headers.get("content-type", JSON)
    media = content_type.partition(";")[0].strip().lower()
    if media not in (OCTETS, ARROW):
        check_utf8(content_type)
    try:
        found = _from_text(body, headers, media, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = why_unreadable(error, body)
        raise InvalidError("this body cannot be read", reason=reason) from None
    if found is None and media == OCTETS and kind is ValueKind.BYTES:
        found = Values([body])
    if found is not None:
        return _keyed(found, key)
    if media == ARROW:
        return _from_arrow(body, kind, key, bytes_max)
    taken = ", ".join(_TAKEN[kind])
    raise RequestError(415, f"a topic of kind {kind} takes a body of {taken}, not of this type")


def _keyed(found: Values, key: str | None) -> Values:
    """Return the values with this key, unless one has another. Events are checked later."""
    if key is None:
        return found
    for own in found.keys or ():
        if own is not None and own != key:
            raise InvalidError(
                "a value has another key, give one of the two", key=key, value_key=own
            )
    return Values(found.values, [key] * len(found.values))


def _from_text(
    body: bytes, headers: Mapping[str, str], media: str, kind: ValueKind
) -> Values | None:
    if "ce-specversion" in headers:
        return Values([_binary_cloud_event(body, headers, media)])
    if media == CLOUD_EVENT:
        return Values([_from_cloud_event(_decoded(_cloud_event, body))])
    if media == CLOUD_EVENTS:
        check_count(len(_cloud_heads(body)))
        return Values([_from_cloud_event(_decoded(_cloud_event, each)) for each in _parts(body)])
    if media == JSON:
        return _from_json(body, kind)
    return _from_lines(body, kind) if media == NDJSON else None


def _from_json(body: bytes, kind: ValueKind) -> Values:
    is_list = body.lstrip()[:1] == b"["
    if kind is ValueKind.EVENT:
        return Values(_events_in(body, is_list=is_list))
    if kind is ValueKind.BYTES:
        return _of_bytes(_many_bytes(body) if is_list else [_bytes(body)])
    raise RequestError(415, f"a topic of batches takes {ARROW}")


def _events_in(body: bytes, *, is_list: bool) -> list[Event]:
    if len(body) <= _SMALL_BYTES:
        return [event_of(each) for each in (_events(body) if is_list else [_event(body)])]
    found = _large_events(body) if is_list else [_large_event(body)]
    check_count(len(found))
    return [
        Event(
            each.kind,
            _decoded(msgspec.json.decode, each.payload),
            key=each.key,
            headers={} if each.headers is msgspec.UNSET else each.headers,
            occurred_at=each.occurred_at,
        )
        for each in found
    ]


def _decoded(decode: Callable[[Any], Any], text: bytes | msgspec.Raw) -> Any:
    """Decode a part of a body; it is at most as large as a record may be."""
    size = memoryview(text).nbytes
    if size > RECORD_BYTES_MAX:
        raise InvalidError(
            "this record is too large, store its content elsewhere and its address here",
            bytes=size,
            bytes_max=RECORD_BYTES_MAX,
        )
    return decode(text)


def check_count(records: int) -> None:
    """Raise 413 for more records than one request appends."""
    if records > REQUEST_RECORDS_MAX:
        raise RequestError(
            413, f"a request appends at most {REQUEST_RECORDS_MAX} records, send it in parts"
        )


def _from_lines(body: bytes, kind: ValueKind) -> Values:
    lines = []
    for line in streams.BytesIO(body):
        if line.strip():
            lines.append(line)
            check_count(len(lines))
    if kind is ValueKind.EVENT:
        return Values([event_of(_decoded(_event, each)) for each in lines])
    if kind is ValueKind.BYTES:
        return _of_bytes([_bytes(each) for each in lines])
    raise RequestError(415, f"a topic of batches takes {ARROW}")


def event_of(given: AppendedEvent) -> Event:
    """Return the event that is given."""
    return Event(
        given.kind,
        given.payload,
        key=given.key,
        headers=given.headers,
        occurred_at=given.occurred_at,
    )


def _of_bytes(given: Iterable[AppendedBytes]) -> Values:
    each = list(given)
    check_count(len(each))
    return Values([_unpacked(one.value) for one in each], [one.key for one in each])


def _unpacked(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidError("a value of bytes is base64", reason=str(error)) from None


# --- CloudEvents 1.0 ---


def _from_cloud_event(given: dict[str, Any]) -> Event:
    attributes = {name: value for name, value in given.items() if name not in _DATA}
    if given.keys() >= _DATA:
        raise InvalidError("a CloudEvent has data or data_base64, not both")
    if "data_base64" in given:
        # The payload is stored as text, and this attribute marks it as base64.
        attributes["datacontentencoding"] = "base64"
    return _cloud(attributes, given.get("data_base64", given.get("data")))


def _binary_cloud_event(body: bytes, headers: Mapping[str, str], media: str) -> Event:
    attributes: dict[str, Any] = {
        name[len(_CE) :]: value for name, value in headers.items() if name.startswith(_CE)
    }
    if not body:
        return _cloud(attributes, None)
    attributes["datacontenttype"] = media
    if media == JSON or media.endswith("+json"):
        return _cloud(attributes, msgspec.json.decode(body))
    attributes["datacontentencoding"] = "base64"
    return _cloud(attributes, base64.b64encode(body).decode())


_DATA: Final = frozenset({"data", "data_base64"})


def _cloud(attributes: dict[str, Any], data: object) -> Event:
    missing = [name for name in ("id", "source", "type", "specversion") if not attributes.get(name)]
    if missing:
        raise InvalidError("a CloudEvent has these attributes", missing=missing)
    if attributes["specversion"] != _CE_VERSION:
        raise InvalidError(
            "this takes CloudEvents of version 1.0", specversion=attributes["specversion"]
        )
    time = attributes.pop("time", None)
    kind = attributes.pop("type")
    key = attributes.get("partitionkey", attributes.get("subject"))
    return Event(
        kind,
        data,
        key=None if key is None else _attribute(key),
        headers={f"ce_{name}": _attribute(value) for name, value in attributes.items()},
        occurred_at=None if time is None else msgspec.convert(time, datetime),
    )


def _attribute(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise InvalidError("attributes of a CloudEvent are texts, numbers, true or false")


# --- Arrow ---


def _from_arrow(body: bytes, kind: ValueKind, key: str | None, bytes_max: int) -> Values:
    batches = [each for each in read_arrow(streams.BytesIO(body), bytes_max) if each.num_rows]
    return values_in(batches, kind, key)


def values_in(batches: Sequence[Any], kind: ValueKind, key: str | None) -> Values:
    """Return the values in checked Arrow batches; InvalidError if they do not fit the kind."""
    if kind is ValueKind.BATCH:
        return _keyed(Values(batches), key)
    check_count(sum(each.num_rows for each in batches))
    if kind is ValueKind.EVENT:
        events = [event for batch in batches for event in _rows_as_events(batch)]
        return _keyed(Values(events), key)
    rows = [row for batch in batches for row in _rows(batch, {"value": pa.binary()})]
    return _keyed(Values([row["value"] for row in rows], [row.get("key") for row in rows]), key)


def _rows_as_events(batch: Any) -> Iterator[Event]:
    for row in _rows(batch, {"kind": pa.string(), "payload": pa.string()}):
        yield Event(
            row["kind"],
            _json(row["payload"]),
            key=row.get("key"),
            headers=_json(row.get("headers")) or {},
            occurred_at=row.get("occurred_at"),
        )


def _rows(batch: Any, needed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    optional = {"key": pa.string(), "headers": pa.string(), "occurred_at": _OCCURRED_AT}
    known = {**needed, **(optional if "kind" in needed else {"key": pa.string()})}
    names = batch.schema.names
    if strange := sorted(set(names) - known.keys()) or sorted(needed.keys() - set(names)):
        raise InvalidError(
            "rows for this topic have other columns", columns=strange, known=list(known)
        )
    try:
        cast = pa.RecordBatch.from_arrays(
            [batch.column(name).cast(known[name]) for name in names], names=names
        )
    except (pa.ArrowException, ValueError) as error:
        raise InvalidError("these columns have other types", reason=str(error)) from error
    yield from cast.to_pylist()


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError("payload and headers are JSON", reason=str(error)) from None
