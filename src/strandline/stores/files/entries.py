"""Records decoded from frames."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from strandline.log.history import Body, EventBody
from strandline.stores.files.columnar import (
    Columns,
    decode_batch,
    own_tenants,
    own_timestamps,
)
from strandline.stores.files.frame import (
    COLUMNS,
    NO_HEADERS,
    ROWS,
    Frame,
    decode_bytes_rows,
    decode_event_rows,
    split_terms,
    tenant_of,
)
from strandline.stores.files.page import Page
from strandline.values import CorruptError, Offset, Tenant, ValueKind


class Entry(NamedTuple):
    """A stored record."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body
    size_bytes: int


#: Errors that decoding raises for bytes that are not a valid frame; Arrow raises OSError
#: for buffers that end beyond their message.
_DAMAGE: Final = (
    *(ValueError, TypeError, KeyError, EOFError, OSError),
    *(struct.error, pa.ArrowException, msgspec.MsgspecError),
)


def page_of(
    frame: Frame, kind: ValueKind, file: str, start: int = 0, stop: int | None = None
) -> Page:
    """Return the records of a frame in [start, stop) as columns.

    CorruptError if it is not valid.
    """
    wanted = range(max(start, frame.base), frame.stop if stop is None else min(stop, frame.stop))
    try:
        if frame.kind != ROWS:
            return _columns(frame, kind, wanted)
        found = _rows(frame, kind)
    except _DAMAGE as error:
        raise _unreadable(frame, file, str(error)) from error
    if len(found.keys) != frame.records:
        raise _unreadable(frame, file, f"it holds {len(found.keys)} records")
    return found.cut(wanted.start, wanted.stop)


def entries_of(frame: Frame, kind: ValueKind, file: str) -> list[Entry]:
    """Return the records of a frame one by one; CorruptError if it is not valid."""
    return entries_in(page_of(frame, kind, file))


def entries_in(page: Page) -> list[Entry]:
    """Return the records of a page one by one."""
    bodies: Sequence[Body]
    if page.kind is ValueKind.EVENT:
        bodies = [EventBody(*each) for each in zip(*page.columns, strict=True)]
    else:
        (bodies,) = page.columns
    columns = (page.offsets, page.stamps, page.keys, page.tenants, bodies, page.sizes())
    return [Entry(*each) for each in zip(*columns, strict=True)]


def columns_of(frame: Frame, kind: ValueKind, file: str) -> "tuple[pa.RecordBatch, Tenant | None]":
    """Return a frame of columns as stored, and the tenant of rows that do not name one."""
    try:
        terms, body = split_terms(frame)
        batch = decode_batch(kind, frame.flags, body)
    except _DAMAGE as error:
        raise _unreadable(frame, file, str(error)) from error
    if batch.num_rows != frame.records:
        raise _unreadable(frame, file, f"it holds {batch.num_rows} records")
    return batch, tenant_of(terms)


def _rows(frame: Frame, kind: ValueKind) -> Page:
    terms, body = split_terms(frame)
    columns: Sequence[Sequence[object]]
    if kind is ValueKind.EVENT:
        rows = map(msgspec.structs.astuple, decode_event_rows(body))
        keys, kinds, payloads, stored, times = zip(*rows, strict=True)
        headers = [NO_HEADERS if each is None else each for each in stored]
        columns, given = (kinds, payloads, headers, times), None
    else:
        rows = map(msgspec.structs.astuple, decode_bytes_rows(body))
        keys, values, given = zip(*rows, strict=True)
        columns = (values,)
    count = len(keys)
    stamps, tenants = [frame.timestamp_us] * count, [tenant_of(terms)] * count
    return Page(kind, range(frame.base, frame.stop), stamps, keys, tenants, columns, given)


def _columns(frame: Frame, kind: ValueKind, wanted: range) -> Page:
    if frame.kind != COLUMNS:
        raise ValueError(f"there is no frame of kind {frame.kind}")
    terms, body = split_terms(frame)
    batch = decode_batch(kind, frame.flags, body)
    if batch.num_rows != frame.records:
        raise ValueError(f"it holds {batch.num_rows} records")
    if len(wanted) < frame.records:
        # Slice before decoding values: a long frame is read in many pages.
        batch = batch.slice(wanted.start - frame.base, len(wanted))
    stored = Columns(batch)
    columns: Sequence[Sequence[object]]
    if kind is ValueKind.EVENT:
        columns = (
            stored.texts("kind"),
            stored.pieces("payload"),
            stored.pieces("headers"),
            stored.numbers("occurred_at"),
        )
    else:
        columns = (stored.pieces("value"),)
    return Page(
        kind,
        wanted,
        own_timestamps(batch, frame.flags, frame.timestamp_us),
        stored.texts("_key"),
        own_tenants(batch, frame.flags, tenant_of(terms)),
        columns,
    )


def _unreadable(frame: Frame, file: str, reason: str) -> CorruptError:
    return CorruptError(
        "this frame cannot be read", file=file, position=frame.position, reason=reason
    )
