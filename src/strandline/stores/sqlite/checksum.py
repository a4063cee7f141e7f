"""A CRC-32C for each row, which detects flipped bits."""

import struct
from typing import TypeAlias

import google_crc32c
import msgspec

from strandline.values import CorruptError

_encode = msgspec.msgpack.Encoder().encode
_pack = struct.Struct("<16sIqqqiiiiqq").pack
_crc = google_crc32c.value
_ABSENT = -1

Content: TypeAlias = tuple[str | None, str | None, str | None, bytes, bytes | None, int | None, int]
"""Key, tenant, kind, value, headers, time of occurrence, size, as in a record's row."""


def row_crc(table: str, *fields: object) -> int:
    """Return the checksum of a row other than a record."""
    return int(_crc(_encode((table, fields))))


def check_row(path: str, table: str, place: int, fields: tuple[object, ...], crc: int) -> None:
    """Raise CorruptError unless the row's fields are unchanged."""
    try:
        if row_crc(table, *fields) == crc:
            return
    except (ValueError, OverflowError):
        pass  # Damage has changed it to a value of a type that we never store.
    raise CorruptError(
        "this row does not match its checksum, restore it from a copy",
        file=path,
        position=place,
        table=f"strandline_{table}",
    )


def record_crc(
    topic_id: bytes, partition: int, offset: int, timestamp_us: int, content: Content
) -> int:
    """Return the checksum of a record: of all its fields and its place."""
    key, tenant, kind, value, headers, occurred_at_us, size_bytes = content
    key_bytes = b"" if key is None else key.encode()
    tenant_bytes = b"" if tenant is None else tenant.encode()
    kind_bytes = b"" if kind is None else kind.encode()
    head = _pack(
        topic_id,
        partition,
        offset,
        timestamp_us,
        _ABSENT if occurred_at_us is None else occurred_at_us,
        _ABSENT if key is None else len(key_bytes),
        _ABSENT if tenant is None else len(tenant_bytes),
        _ABSENT if kind is None else len(kind_bytes),
        _ABSENT if headers is None else len(headers),
        len(value) if occurred_at_us is None else ~len(value),
        size_bytes,
    )
    crc: int = _crc(b"".join((head, key_bytes, tenant_bytes, kind_bytes, headers or b"", value)))
    return crc
