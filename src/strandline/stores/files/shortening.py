"""A frame without its last records."""

import msgspec
import pyarrow as pa

from strandline.stores.files.columnar import (
    compression_of,
    decode_batch,
    encode_batch,
    own_timestamps,
)
from strandline.stores.files.frame import (
    HAS_TERMS,
    IS_MIXED,
    LAG_UNKNOWN,
    ROWS,
    AppendIdentity,
    Frame,
    SealedTerms,
    decode_bytes_rows,
    decode_event_rows,
    encode_frame,
    encode_terms,
    split_terms,
)
from strandline.values import ValueKind

_encode = msgspec.msgpack.Encoder().encode


def shortened(
    frame: Frame, count: int, kind: ValueKind, seed: int, chain: bytes | None
) -> tuple[bytes, int]:
    """Return a frame with only the first `count` records of another one, and their timestamp.

    `chain` is the chain's value after them, in a topic with a proof.
    """
    terms, body = split_terms(frame)
    if frame.kind == ROWS:
        flags, kept, timestamp_us = 0, _rows(body, count, kind), frame.timestamp_us
    else:
        flags, kept, timestamp_us = _columns(frame, body, count, kind)
    if terms is not None:
        flags |= HAS_TERMS
        stop = frame.base + count
        kept = encode_terms(_shortened_terms(terms, stop, count, chain)) + kept
    about = (frame.kind, flags, frame.base, count, timestamp_us, LAG_UNKNOWN)
    return encode_frame(seed, frame.previous, about, kept)[0], timestamp_us


def _rows(body: "bytes | pa.Buffer", count: int, kind: ValueKind) -> bytes:
    if kind is ValueKind.EVENT:
        return _encode(decode_event_rows(body)[:count])
    rows = decode_bytes_rows(body)[:count]
    return _encode(
        [
            (row.key, row.value) if row.size_bytes is None else (row.key, row.value, row.size_bytes)
            for row in rows
        ]
    )


def _columns(
    frame: Frame, body: "bytes | pa.Buffer", count: int, kind: ValueKind
) -> tuple[int, bytes, int]:
    batch = decode_batch(kind, frame.flags, body)
    last_us = own_timestamps(batch, frame.flags, frame.timestamp_us)[count - 1]
    compression = compression_of(frame.flags)
    flags, kept = encode_batch(batch.slice(0, count), frame.flags & IS_MIXED, compression)
    return flags, bytes(kept), last_us


def _shortened_terms(terms: SealedTerms, stop: int, count: int, chain: bytes | None) -> SealedTerms:
    sequences = None if terms.sequences is None else terms.sequences[:count]
    appends = None
    if terms.appends is not None:
        appends = [_shortened_append(each, stop) for each in terms.appends if each.base < stop]
    return msgspec.structs.replace(terms, sequences=sequences, chain=chain, appends=appends)


def _shortened_append(append: AppendIdentity, stop: int) -> AppendIdentity:
    count = min(append.records, stop - append.base)
    sequences = None if append.sequences is None else append.sequences[:count]
    return msgspec.structs.replace(append, records=count, sequences=sequences)
