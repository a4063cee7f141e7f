"""The messages in the body of a request."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from strandline.durable_streams.writers import MESSAGE_KIND
from strandline.values import RECORD_BYTES_MAX, REQUEST_RECORDS_MAX, Event, InvalidError
from strandline.values.unreadable_json import why_unreadable

ARRAY_BYTES_MAX: Final = 4 * 1024 * 1024
"""The maximum size of an array of messages: numbers take a hundred times as much memory."""

_decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode


def messages_of(body: bytes, *, is_json: bool, may_be_empty: bool = False) -> list[bytes]:
    """Return the messages in a body: the elements of a JSON array, or else the one value.

    InvalidError for invalid JSON, and without messages, unless `may_be_empty`.
    """
    if not is_json:
        return [body] if body else []
    is_array = body.lstrip()[:1] == b"["
    bytes_max = ARRAY_BYTES_MAX if is_array else RECORD_BYTES_MAX
    if len(body) > bytes_max:
        raise InvalidError(
            "this is too much for one request, send it in parts",
            bytes=len(body),
            bytes_max=bytes_max,
        )
    parts = _decoded(_decode_raw, body) if is_array else [body.strip()]
    if len(parts) > REQUEST_RECORDS_MAX:
        raise InvalidError(
            "these are too many messages for one request, send them in parts",
            messages=len(parts),
            messages_max=REQUEST_RECORDS_MAX,
        )
    if not parts and not may_be_empty:
        raise InvalidError("an array has a message at least")
    for each in parts:
        # Values that other interfaces could not read are refused with their error.
        Event(MESSAGE_KIND, _decoded(msgspec.json.decode, each))
    return [bytes(each) for each in parts]


def _decoded(decode: Callable[[Any], Any], text: bytes | msgspec.Raw) -> Any:
    try:
        return decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = why_unreadable(error, bytes(text))
        raise InvalidError("a body of this stream is JSON", reason=reason) from None
