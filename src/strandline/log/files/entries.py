"""Records as they come out of frames."""

from typing import NamedTuple

import msgspec
import pyarrow as pa

from strandline.log.draft import Body, EventBody
from strandline.log.files.columnar import (
    Columns,
    decode_batch,
    own_tenants,
    own_timestamps,
)
from strandline.log.files.frame import (
    COLUMNS,
    NO_HEADERS,
    ROWS,
    Frame,
    decode_bytes_rows,
    decode_event_rows,
    split_terms,
    tenant_of,
)
from strandline.values import CorruptError, Offset, Tenant, ValueKind


class Entry(NamedTuple):
    """A record as it is kept."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body
    size_bytes: int


def entries_of(frame: Frame, kind: ValueKind, file: str) -> list[Entry]:
    """Return the records of a frame; CorruptError if it holds no such thing."""
    try:
        found = _rows(frame, kind) if frame.kind == ROWS else _columns(frame, kind)
    except (ValueError, TypeError, pa.ArrowException, msgspec.MsgspecError) as error:
        raise _unreadable(frame, file, str(error)) from error
    if len(found) != frame.records:
        raise _unreadable(frame, file, f"it holds {len(found)} records")
    return found


def columns_of(frame: Frame, kind: ValueKind, file: str) -> "tuple[pa.RecordBatch, Tenant | None]":
    """Return a frame of columns as they are stored, and whose they are if they do not say."""
    try:
        terms, body = split_terms(frame)
        batch = decode_batch(kind, frame.flags, body)
    except (ValueError, TypeError, pa.ArrowException, msgspec.MsgspecError) as error:
        raise _unreadable(frame, file, str(error)) from error
    if batch.num_rows != frame.records:
        raise _unreadable(frame, file, f"it holds {batch.num_rows} records")
    return batch, tenant_of(terms)


def _rows(frame: Frame, kind: ValueKind) -> list[Entry]:
    terms, body = split_terms(frame)
    tenant, base, stamp = tenant_of(terms), frame.base, frame.timestamp_us
    if kind is ValueKind.EVENT:
        return [
            Entry(
                Offset(offset),
                stamp,
                row.key,
                tenant,
                EventBody(
                    row.kind,
                    row.payload_json,
                    headers := NO_HEADERS if row.headers_json is None else row.headers_json,
                    row.occurred_at_us,
                ),
                (0 if row.key is None else len(row.key.encode()))
                + len(row.kind.encode())
                + len(row.payload_json)
                + len(headers),
            )
            for offset, row in enumerate(decode_event_rows(body), base)
        ]
    return [
        Entry(
            Offset(offset),
            stamp,
            row.key,
            tenant,
            row.value,
            (0 if row.key is None else len(row.key.encode())) + len(row.value)
            if row.size_bytes is None
            else row.size_bytes,
        )
        for offset, row in enumerate(decode_bytes_rows(body), base)
    ]


def _columns(frame: Frame, kind: ValueKind) -> list[Entry]:
    if frame.kind != COLUMNS:
        raise ValueError(f"there is no frame of kind {frame.kind}")
    terms, body = split_terms(frame)
    batch = decode_batch(kind, frame.flags, body)
    columns = Columns(batch)
    stamps = own_timestamps(batch, frame.flags, frame.timestamp_us)
    tenants = own_tenants(batch, frame.flags, tenant_of(terms))
    keys = columns.pieces("_key")
    bodies: list[Body]
    if kind is ValueKind.EVENT:
        kinds = columns.pieces("kind")
        payloads, headers = columns.pieces("payload"), columns.pieces("headers")
        bodies = [
            EventBody((name or b"").decode(), payload or b"", header or b"", occurred)
            for name, payload, header, occurred in zip(
                kinds, payloads, headers, columns.numbers("occurred_at"), strict=True
            )
        ]
        sizes = [
            len(key or b"") + len(name or b"") + len(payload or b"") + len(header or b"")
            for key, name, payload, header in zip(keys, kinds, payloads, headers, strict=True)
        ]
    else:
        bodies = [value or b"" for value in columns.pieces("value")]
        sizes = [len(key or b"") + len(body) for key, body in zip(keys, bodies, strict=True)]
    texts = [None if key is None else key.decode() for key in keys]
    return [
        Entry(Offset(offset), stamp, key, tenant, body, size)
        for offset, (stamp, key, tenant, body, size) in enumerate(
            zip(stamps, texts, tenants, bodies, sizes, strict=True), frame.base
        )
    ]


def _unreadable(frame: Frame, file: str, reason: str) -> CorruptError:
    return CorruptError(
        "this frame cannot be read", file=file, position=frame.position, reason=reason
    )
