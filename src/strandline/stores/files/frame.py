"""Frames: the units in which records are written, each whole or absent."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import google_crc32c
import msgspec
import pyarrow as pa

from strandline.log.draft import Draft
from strandline.log.history import EventBody
from strandline.values import Tenant

HEADER = Struct("<I2sBBIIQqII")
"""Checksum, magic, kind, flags, checksum of the frame before, length of what follows,
first offset, timestamp of the last record, count, and the difference between the first
offset and the durable mark known when it was written."""
HEADER_BYTES = HEADER.size
MAGIC = b"\xf5S"
#: The position of the magic in a frame.
MAGIC_AT = 4

ROWS = 1
"""Rows as MessagePack, all of one timestamp and tenant."""
COLUMNS = 2
"""Columns as an Arrow record batch, see `columnar`."""

HAS_TERMS = 1
"""The body begins with the length of the terms, and that many bytes of `FrameTerms`."""
IS_ZSTD = 2
IS_LZ4 = 4
IS_MIXED = 8
"""Rows of several appends: the columns hold each row's timestamp and tenant."""

LAG_UNKNOWN = 0xFFFFFFFF
FRAME_BYTES_MAX = 1 << 30

#: From this size on, avoiding a copy is worth any overhead.
_COPY_BYTES = 4096
LARGE_BYTES = 1 << 16
"""From this size on, a piece is written separately instead of copied together with others."""

Piece: TypeAlias = "bytes | pa.Buffer"

# MessagePack: an array of one, an array of n, and the head of a large binary.
_ONE_ROW, _ARRAY = b"\x91", 0x90
_BINARY, _BINARY_32 = Struct(">BI"), 0xC6

_crc = google_crc32c.extend
_pack = HEADER.pack
_CRC = Struct("<I")
_TERMS_LENGTH = Struct("<H")
#: Replaces a length that does not fit, and is followed by it.
_LONG_TERMS = 0xFFFF
_LONG_LENGTH = Struct("<HI")


class EventRow(msgspec.Struct, array_like=True, gc=False):
    """An event as a row of a frame."""

    key: str | None
    kind: str
    payload_json: bytes
    headers_json: bytes | None
    occurred_at_us: int | None


class BytesRow(msgspec.Struct, array_like=True, gc=False):
    """Bytes, or a batch as an Arrow IPC stream, as a row of a frame."""

    key: str | None
    value: bytes
    #: The size of a batch as counted against limits, which is more than that of its stream.
    size_bytes: int | None = None


class FrameTerms(msgspec.Struct, array_like=True, gc=False):
    """The terms of the append that a frame holds, if it had any."""

    tenant: str | None = None
    producer: str | None = None
    #: The first record's sequence; the others have the next ones, unless `sequences` is given.
    sequence: int | None = None
    idempotency_key: str | None = None
    sequences: list[int] | None = None
    #: In a topic with a proof: the chain's value after the last record.
    chain: bytes | None = None


class AppendIdentity(msgspec.Struct, array_like=True, gc=False):
    """The identity of one append, and where its records are."""

    base: int
    records: int
    timestamp_us: int
    tenant: str | None = None
    producer: str | None = None
    sequence: int | None = None
    idempotency_key: str | None = None
    sequences: list[int] | None = None


class SealedTerms(FrameTerms, array_like=True, gc=False):
    """The terms of a frame with the records of several appends."""

    #: The appends that are still recognised, by offset.
    appends: list[AppendIdentity] | None = None


class Frame(NamedTuple):
    """A frame that has been read and verified."""

    kind: int
    flags: int
    base: int
    #: The number of records.
    records: int
    timestamp_us: int
    #: The durable mark known when it was written; None if it was too far away to store.
    durable: int | None
    position: int
    end: int
    crc: int
    previous: int
    #: Bytes, or a view of a larger buffer.
    body: "bytes | pa.Buffer"

    @property
    def stop(self) -> int:
        """One past the last offset."""
        return self.base + self.records

    def has(self, offset: int) -> bool:
        """Whether it holds the record of this offset."""
        return self.base <= offset < self.stop


_encode = msgspec.msgpack.Encoder().encode
_decode_terms = msgspec.msgpack.Decoder(SealedTerms).decode
decode_event_rows: Final = msgspec.msgpack.Decoder(list[EventRow]).decode
decode_bytes_rows: Final = msgspec.msgpack.Decoder(list[BytesRow]).decode
NO_HEADERS = b"{}"
"""The stored form of empty headers of an event; a frame leaves them out."""


def encode_row(drafted: Draft) -> list[Piece]:
    """Return the body of a frame of one row; a large value is a separate piece."""
    key, body, _ = drafted
    if type(body) is EventBody:
        kind, payload, headers, occurred = body
        return [
            _encode(((key, kind, payload, None if headers == NO_HEADERS else headers, occurred),))
        ]
    if len(body) < LARGE_BYTES:
        return [encode_rows((drafted,))]
    # In pieces, to avoid copying the value.
    size = _row(drafted)[2:]
    opening = _ONE_ROW + bytes((_ARRAY + 2 + len(size),)) + _encode(key)
    return [opening + _BINARY.pack(_BINARY_32, len(body)), body, *map(_encode, size)]


def encode_rows(drafts: Sequence[Draft]) -> bytes:
    """Return the body of a frame of rows."""
    return _encode([_row(drafted) for drafted in drafts])


def _row(drafted: Draft) -> tuple[object, ...]:
    key, body, size_bytes = drafted
    if isinstance(body, EventBody):
        kind, payload, headers, occurred = body
        return key, kind, payload, None if headers == NO_HEADERS else headers, occurred
    value = body if isinstance(body, bytes) else memoryview(body)
    if size_bytes == len(body) + (0 if key is None else len(key.encode())):
        return key, value
    return key, value, size_bytes


def encode_terms(terms: FrameTerms) -> bytes:
    """Return the encoded terms, with which the body of a frame with HAS_TERMS begins."""
    encoded = _encode(terms)
    if len(encoded) < _LONG_TERMS:
        return _TERMS_LENGTH.pack(len(encoded)) + encoded
    return _LONG_LENGTH.pack(_LONG_TERMS, len(encoded)) + encoded


def split_terms(frame: Frame) -> "tuple[SealedTerms | None, bytes | pa.Buffer]":
    """Return the terms of the append, and the rest of the body."""
    body = frame.body
    if not frame.flags & HAS_TERMS:
        return None, body
    (length,) = _TERMS_LENGTH.unpack_from(body)
    start = _TERMS_LENGTH.size
    if length == _LONG_TERMS:
        _, length = _LONG_LENGTH.unpack_from(body)
        start = _LONG_LENGTH.size
    return _decode_terms(body[start : start + length]), body[start + length :]


def appends_in(frame: Frame) -> list[AppendIdentity]:
    """Return the identities of a frame's appends that are still recognised, by offset."""
    terms, _ = split_terms(frame)
    if terms is None:
        return []
    if terms.appends is not None:
        return terms.appends
    if terms.producer is None and terms.idempotency_key is None:
        return []
    return [
        AppendIdentity(
            *(frame.base, frame.records, frame.timestamp_us, terms.tenant),
            *(terms.producer, terms.sequence, terms.idempotency_key, terms.sequences),
        )
    ]


def tenant_of(terms: FrameTerms | None) -> Tenant | None:
    """Return the tenant of a frame's records."""
    return None if terms is None or terms.tenant is None else Tenant(terms.tenant)


def encode_frame(
    seed: int,
    previous: int,
    about: tuple[int, int, int, int, int, int],
    body: "bytes | pa.Buffer",
) -> tuple[bytes, int]:
    """Return the frame and its checksum.

    `about` is kind, flags, first offset, count, timestamp and lag.
    """
    if len(body) >= _COPY_BYTES:
        pieces, crc = encode_pieces(seed, previous, about, (body,))
        return b"".join(pieces), crc
    kind, flags, base, count, timestamp_us, lag = about
    packed = _pack(0, MAGIC, kind, flags, previous, len(body), base, timestamp_us, count, lag)
    rest = packed[4:] + body
    crc = _crc(seed, rest)
    return _CRC.pack(crc) + rest, crc


def encode_pieces(
    seed: int, previous: int, about: tuple[int, int, int, int, int, int], body: Sequence[Piece]
) -> tuple[list[bytes | memoryview], int]:
    """Do what `encode_frame` does for a body in pieces; copies none of them."""
    kind, flags, base, count, timestamp_us, lag = about
    length = sum(map(len, body))
    head = _pack(0, MAGIC, kind, flags, previous, length, base, timestamp_us, count, lag)[4:]
    crc = _crc(seed, head)
    for piece in body:
        crc = _crc(crc, piece)
    return [_CRC.pack(crc) + head, *(memoryview(piece) for piece in body)], crc


def decode_frame(seed: int, data: bytes, at: int, position: int) -> Frame | None:
    """Return the frame at `at` in `data`, which is `position` in its file.

    None if no complete frame verifies there.
    """
    if len(data) - at < HEADER_BYTES:
        return None
    crc, magic, kind, flags, previous, length, base, timestamp_us, count, lag = HEADER.unpack_from(
        data, at
    )
    end = at + HEADER_BYTES + length
    if magic != MAGIC or length > FRAME_BYTES_MAX or end > len(data) or not count:
        return None
    if length < _COPY_BYTES:
        checked = data[at + 4 : end]
        body = checked[HEADER_BYTES - 4 :]
    else:
        checked = pa.py_buffer(data).slice(at + 4, end - at - 4)
        body = checked.slice(HEADER_BYTES - 4)
    if _crc(seed, checked) != crc:
        return None
    return Frame(
        kind,
        flags,
        base,
        count,
        timestamp_us,
        None if lag == LAG_UNKNOWN else base - lag,
        position,
        position + HEADER_BYTES + length,
        crc,
        previous,
        body,
    )


def frame_bytes(data: bytes, at: int) -> int | None:
    """Return the length that the frame at `at` declares; None if there is no header there."""
    if len(data) - at < HEADER_BYTES or data[at + MAGIC_AT : at + MAGIC_AT + 2] != MAGIC:
        return None
    length: int = HEADER.unpack_from(data, at)[5]
    return HEADER_BYTES + length if length <= FRAME_BYTES_MAX else None
