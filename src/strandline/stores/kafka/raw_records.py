"""Messages of other programs as records of a topic."""

import hashlib
from typing import Any, Final

from confluent_kafka import Message as KafkaMessage

from strandline.log.record_lists import StoredRecord
from strandline.values import Offset, SourceMessage

_KEY_CHARACTERS_MAX: Final = 4096


def raw_record(message: KafkaMessage) -> StoredRecord:
    """Return a message as a record: its value, with key and headers as they are."""
    found: Any = message.headers()
    headers = tuple((str(name), value) for name, value in found or ())
    key, value = _bytes(message.key()), _bytes(message.value())
    body = SourceMessage(value, key, headers)
    size = len(body) + len(key or b"") + sum(len(n) + len(v or b"") for n, v in headers)
    # Without a time it is -1.
    time_ms = max(0, message.timestamp()[1])
    text = None if key is None else key_text(key)
    offset = Offset(message.offset() or 0)
    return StoredRecord(offset, time_ms * 1000, text, None, body, size, None)


def key_text(key: bytes) -> str:
    """Return a key as text: as it is in UTF-8, or in hexadecimal; a long one by its digest."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = "0x" + key.hex()
    if len(text) > _KEY_CHARACTERS_MAX:
        return "sha256:" + hashlib.sha256(key).hexdigest()
    return text


def _bytes(value: "str | bytes | None") -> bytes | None:
    return value.encode() if isinstance(value, str) else value
