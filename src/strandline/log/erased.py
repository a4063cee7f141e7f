"""What is left of a record that was erased: a tombstone at its offset. See design 0123."""

from typing import Final

import msgspec

from strandline.log.history import Body, EventBody
from strandline.values import InvalidError, Record, ValueKind
from strandline.values.event import Event

ERASED_KIND: Final = "strandline.erased"
"""The kind of an event in the place of one that was erased."""
ERASED_HEADER: Final = "strandline-erased"
"""The header with the digest of what was erased, in hexadecimal; `-` in a topic without a proof."""
_NO_DIGEST = "-"
_BYTES = b"\x00strandline.erased\x00"
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


def tombstone(kind: ValueKind, digest: bytes | None) -> Body:
    """Return what takes the place of a body; `digest` is that of the record, if it is proved."""
    text = _NO_DIGEST if digest is None else digest.hex()
    if kind is ValueKind.EVENT:
        return EventBody(ERASED_KIND, b"null", msgspec.json.encode({ERASED_HEADER: text}), None)
    return _BYTES + text.encode()


def size_of_tombstone(body: Body) -> int:
    """Return what a tombstone counts against limits."""
    if isinstance(body, EventBody):
        return len(body.kind) + len(body.payload_json) + len(body.headers_json)
    return len(body)


def is_tombstone(body: Body) -> bool:
    """Whether a body stands for one that was erased."""
    if isinstance(body, EventBody):
        return body.kind == ERASED_KIND
    return len(body) <= len(_BYTES) + 64 and bytes(body[: len(_BYTES)]) == _BYTES


def erased_digest(body: Body) -> bytes | None:
    """Return the digest of the record that a tombstone stands for; None for any other body."""
    if not is_tombstone(body):
        return None
    try:
        if isinstance(body, EventBody):
            text = _decode_headers(body.headers_json).get(ERASED_HEADER, "")
        else:
            text = bytes(body)[len(_BYTES) :].decode()
        return None if text == _NO_DIGEST else bytes.fromhex(text) or None
    except ValueError:
        return None


def is_erased(record: Record) -> bool:
    """Whether a record was erased: its offset and time are left, and in a topic with a proof
    the digest of what it was."""
    if not isinstance(record, Record):
        raise InvalidError("this is no record of a log", type=type(record).__name__)
    value = record.value
    if isinstance(value, Event):
        return value.kind == ERASED_KIND
    return isinstance(value, bytes) and is_tombstone(value)
