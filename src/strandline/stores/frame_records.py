"""Records and identities in a frame, which is one message of an engine."""

from collections.abc import Sequence
from typing import Final

import msgspec

from strandline.log.history import Body, EventBody
from strandline.log.stored_records import StoredRecord
from strandline.values import Offset, Tenant, ValueKind

_NO_HEADERS: Final = b"{}"


class FrameRecord(msgspec.Struct, array_like=True, frozen=True):
    """One record."""

    timestamp_us: int
    key: str | None
    tenant: str | None
    size_bytes: int
    #: The chain's value after it; None in a topic without a proof.
    chained: bytes | None
    #: A value, or the payload of an event.
    value: bytes
    kind: str | None = None
    headers: bytes | None = None
    occurred_at_us: int | None = None


class FrameIdentity(msgspec.Struct, array_like=True, frozen=True):
    """The identity of a write: an idempotency key, or a producer's sequence."""

    tenant: str | None
    name: str
    #: None for an idempotency key.
    sequence: int | None
    offset: int
    timestamp_us: int
    records: int = 1


def stored_records(
    records: Sequence[FrameRecord], start: int, kind: ValueKind
) -> list[StoredRecord]:
    """Return the records of a frame that begins at `start`."""
    return [_stored(one, offset, kind) for offset, one in enumerate(records, start)]


def _stored(one: FrameRecord, offset: int, kind: ValueKind) -> StoredRecord:
    body: Body = one.value
    if kind is ValueKind.EVENT:
        headers = _NO_HEADERS if one.headers is None else one.headers
        body = EventBody(one.kind or "", one.value, headers, one.occurred_at_us)
    tenant = None if one.tenant is None else Tenant(one.tenant)
    return StoredRecord(
        *(Offset(offset), one.timestamp_us, one.key, tenant),
        *(body, one.size_bytes, one.chained),
    )


def frame_record(record: StoredRecord) -> FrameRecord:
    """Return a record as it is stored."""
    _, timestamp_us, key, tenant, body, size_bytes, chained = record
    if isinstance(body, EventBody):
        kind, value, headers, occurred_at_us = body
        return FrameRecord(
            *(timestamp_us, key, tenant, size_bytes, chained, bytes(value), kind),
            *(None if headers == _NO_HEADERS else bytes(headers), occurred_at_us),
        )
    value = body if isinstance(body, bytes) else body.to_pybytes()
    return FrameRecord(timestamp_us, key, tenant, size_bytes, chained, value)
