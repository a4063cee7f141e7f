"""The checks, comparison and repr of events, used with and without the core."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from strandline.values._json import decode, encode_sorted
from strandline.values.delivery_time import DELIVER_AT, check_delivery_time
from strandline.values.errors import CorruptError, InvalidError
from strandline.values.names import check_length, check_no_control, check_text
from strandline.values.prompt import Shown, few, prompt_text, shortened

if TYPE_CHECKING:
    from strandline.values.event import Event
    from strandline.values.record import Record

KIND_BYTES_MAX = 200

Parts: TypeAlias = "tuple[str, bytes, str | None, bytes, int | None]"
"""Kind, payload, key, headers and time as they are stored."""

NO_HEADERS_JSON = b"{}"
_SHOWN_CHARS_MAX = 80
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


def check_kind(kind: object) -> str:
    """Return a kind: 1 to 200 bytes of text without control characters, else InvalidError."""
    # The cheapest check, which nearly always decides.
    if (
        type(kind) is str
        and 0 < len(kind) <= KIND_BYTES_MAX
        and kind.isascii()
        and kind.isprintable()
    ):
        return kind
    text = check_length(check_text(kind, "kind"), "kind", KIND_BYTES_MAX)
    return check_no_control(text, "kind")


# There are few kinds, and each is used many times.
check_kind_once = lru_cache(maxsize=4096)(check_kind)


def check_key(key: object) -> str:
    """Return a key, which is text; else InvalidError."""
    return check_text(key, "key")


def encode_headers(headers: object) -> bytes:
    """Return headers as they are stored; InvalidError unless they map text to text."""
    if isinstance(headers, Mapping) and isinstance(at := headers.get(DELIVER_AT), str):
        check_delivery_time(at)
    if type(headers) is dict:
        for name, value in headers.items():
            if type(name) is not str or type(value) is not str:
                break
        else:
            try:
                return encode_sorted(headers)
            except UnicodeEncodeError:
                # Refused below, with a message about its type.
                pass
    if not isinstance(headers, (dict, Mapping)):
        raise InvalidError("headers are a mapping of text to text", type=type(headers).__name__)
    return encode_sorted(
        {
            check_text(name, "header name"): check_text(value, "header value")
            for name, value in headers.items()
        }
    )


def decode_payload(stored: bytes) -> Any:
    """Return a payload; CorruptError if it is not JSON."""
    try:
        return decode(stored)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        _raise_corrupt("payload", error)


def decode_headers(stored: bytes) -> Mapping[str, str]:
    """Return headers; CorruptError if they are not valid."""
    try:
        return MappingProxyType(_decode_headers(stored))
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        _raise_corrupt("headers", error)


def events_equal(one: "Event", other: "Event") -> bool:
    """Whether two events are equal, regardless of the order of the keys of their JSON."""
    mine, theirs = one.parts(), other.parts()
    return (
        mine[::2] == theirs[::2]
        and one.headers == other.headers
        # Not a comparison of Python values, because there 1 equals True.
        and (mine[1] == theirs[1] or encode_sorted(one.payload) == encode_sorted(other.payload))
    )


def event_text(event: "Event") -> str:
    """Return the repr of an event."""
    kind, payload, key, headers, occurred_at_us = event.parts()
    parts = [_shown(kind), _shown(payload)]
    if key is not None:
        parts.append(f"key={_shown(key)}")
    if headers != NO_HEADERS_JSON:
        parts.append(f"headers={_shown(headers)}")
    if occurred_at_us is not None:
        parts.append(f"occurred_at_us={occurred_at_us}")
    return f"Event({', '.join(parts)})"


def raise_too_large(size_bytes: int) -> NoReturn:
    """Refuse an event that is too large for any log."""
    raise InvalidError("this event is too large, split it", bytes=size_bytes)


def raise_no_event(record: "Record") -> NoReturn:
    """Raise InvalidError for the event of a record that holds none."""
    raise InvalidError(
        "this record holds no event, use .value",
        topic=record.topic,
        type=type(record.value).__name__,
    )


def record_text(record: "Record") -> str:
    """Return the repr of a record."""
    value = record.value
    is_batch = not isinstance(value, bytes) and hasattr(value, "schema")
    return prompt_text(
        "Record",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=Shown(record.timestamp.isoformat()),
        key=record.key,
        tenant=record.tenant,
        value=_shown_batch(value) if is_batch else shortened(value),
    )


def _shown_batch(batch: Any) -> Shown:
    columns = few(batch.schema.names)
    return Shown(prompt_text("RecordBatch", rows=batch.num_rows, columns=columns))


def _raise_corrupt(what: str, error: Exception) -> NoReturn:
    raise CorruptError(
        f"the {what} of this event cannot be decoded, skip or dead-letter it",
        file=None,
        position=None,
        reason=str(error),
    ) from error


def _shown(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value.decode(errors="replace")
    if len(text) > _SHOWN_CHARS_MAX:
        text = text[:_SHOWN_CHARS_MAX] + "..."
    return ascii(text)
