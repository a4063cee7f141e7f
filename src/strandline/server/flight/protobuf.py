"""The wire format of Protocol Buffers: as much of it as messages of Flight SQL need."""

from collections.abc import Iterator
from typing import Final

from strandline.values import InvalidError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX: Final = 10

FieldValue = int | bytes
"""A number, or the bytes of a text, of a message or of packed numbers."""


def fields_in(message: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Yield the number and the value of each field; InvalidError if it is not a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value: FieldValue
            value, at = _varint(message, at)
        elif kind in _SIZES or kind == _BYTES:
            size, at = (_SIZES[kind], at) if kind in _SIZES else _varint(message, at)
            value, at = message[at : at + size], at + size
            if at > len(message):
                raise _unreadable("it ends within a field")
        else:
            raise _unreadable(f"there is no wire type {kind}")
        yield tag >> 3, value


def numbers_in(packed: bytes) -> Iterator[int]:
    """Yield packed numbers."""
    at = 0
    while at < len(packed):
        number, at = _varint(packed, at)
        yield number


def message_of(*fields: tuple[int, FieldValue | str | None]) -> bytes:
    """Return a message with these fields; None is left out."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_tag(number, _VARINT), varint(int(value))]
        elif value is not None:
            body = value.encode() if isinstance(value, str) else value
            parts += [_tag(number, _BYTES), varint(len(body)), body]
    return b"".join(parts)


def varint(number: int) -> bytes:
    """Return a number from 0 in its variable length."""
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - Seven bits in each byte.
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    found = 0
    for index, byte in enumerate(message[at : at + _VARINT_BYTES_MAX]):
        found |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return found, at + index + 1
    raise _unreadable("a number has no end")


def _unreadable(reason: str) -> InvalidError:
    return InvalidError("this is no message of Flight SQL", reason=reason)
