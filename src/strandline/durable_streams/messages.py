"""The messages in the body of a request."""

import msgspec

from strandline.durable_streams.writers import MESSAGE_KIND
from strandline.values import Event, InvalidError

_decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode


def messages_of(body: bytes, *, is_json: bool, may_be_empty: bool = False) -> list[bytes]:
    """Return the messages in a body: of JSON, each element of an array, and else the one value.

    InvalidError for what is no JSON, and for no message, unless `may_be_empty`.
    """
    if not is_json:
        return [body] if body else []
    try:
        is_array = body.lstrip()[:1] == b"["
        found = [bytes(each) for each in _decode_raw(body)] if is_array else [body.strip()]
        for each in found:
            # Whatever another face could not read is refused as it refuses it.
            Event(MESSAGE_KIND, msgspec.json.decode(each))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError("a body of this stream is JSON", reason=str(error)) from None
    if not found and not may_be_empty:
        raise InvalidError("an array has a message at least")
    return found
