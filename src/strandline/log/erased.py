"""Tombstones: what is stored at the offset of an erased record. See design 0123."""

from typing import Final

import msgspec

from strandline.log.history import Body, EventBody
from strandline.values import InvalidError, Record, ValueKind
from strandline.values.event import Event

ERASED_KIND: Final = "strandline.erased"
"""The kind of the event stored in place of an erased one."""
ERASED_HEADER: Final = "strandline-erased"
"""The header with the erased record's digest in hexadecimal; `-` in a topic without proof."""
_NO_DIGEST = "-"
_NULL = b"null"
_DIGEST_BYTES = 32
_BYTES = b"\x00strandline.erased\x00"
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


def tombstone(kind: ValueKind, digest: bytes | None) -> Body:
    """Return a tombstone's body; `digest` is the erased record's, in a topic with a proof."""
    text = _NO_DIGEST if digest is None else digest.hex()
    if kind is ValueKind.EVENT:
        return EventBody(ERASED_KIND, b"null", msgspec.json.encode({ERASED_HEADER: text}), None)
    return _BYTES + text.encode()


def erased_event() -> Event:
    """Return a tombstone to append, in a topic without proof."""
    return Event(ERASED_KIND, None, headers={ERASED_HEADER: _NO_DIGEST})


def size_of_tombstone(body: Body) -> int:
    """Return the size of a tombstone as counted against limits."""
    if isinstance(body, EventBody):
        return len(body.kind) + len(body.payload_json) + len(body.headers_json)
    return len(body)


def is_tombstone(body: Body) -> bool:
    """Whether a body is a tombstone: an event of that kind with content is none."""
    if isinstance(body, EventBody):
        return (
            body.kind == ERASED_KIND
            and body.payload_json == _NULL
            and ERASED_HEADER in _headers(body)
        )
    return len(body) <= len(_BYTES) + 64 and bytes(body[: len(_BYTES)]) == _BYTES


def _headers(body: EventBody) -> dict[str, str]:
    try:
        return _decode_headers(body.headers_json)
    except (msgspec.MsgspecError, ValueError):
        return {}


def erased_digest(body: Body) -> bytes | None:
    """Return the digest of the erased record, from its tombstone; None for any other body.

    None also for a tombstone with anything else in it: that would be no part of the proof.
    """
    if not is_tombstone(body):
        return None
    if isinstance(body, EventBody):
        headers = _headers(body)
        if len(headers) > 1 or body.occurred_at_us is not None:
            return None
        text = headers[ERASED_HEADER]
    else:
        text = bytes(body)[len(_BYTES) :].decode(errors="replace")
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        return None
    return digest if len(digest) == _DIGEST_BYTES and digest.hex() == text else None


def is_erased(record: Record) -> bool:
    """Whether a record was erased: only its offset and time are left, and in a topic with a
    proof the digest of its original content. A record with a key or a payload never was."""
    if not isinstance(record, Record):
        raise InvalidError("this is not a record of a log", type=type(record).__name__)
    value = record.value
    if isinstance(value, Event):
        return (
            value.kind == ERASED_KIND
            and record.key is None
            and value.payload_json == _NULL
            and ERASED_HEADER in value.headers
        )
    return isinstance(value, bytes) and is_tombstone(value)
