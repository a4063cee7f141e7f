"""Rewrites sealed segments: rows become columns, which replays read many at a time."""

import contextlib
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from strandline.log.history import EventBody
from strandline.stores.files.columnar import Compression, encode_batch, frame_schema
from strandline.stores.files.entries import Entry, entries_of
from strandline.stores.files.frame import (
    COLUMNS,
    HAS_TERMS,
    IS_MIXED,
    LAG_UNKNOWN,
    AppendIdentity,
    FrameTerms,
    SealedTerms,
    appends_in,
    encode_frame,
    encode_terms,
)
from strandline.stores.files.manifest import Manifest, StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.proving import value_after
from strandline.stores.files.rewriting import begin_rewrite, write_segment
from strandline.stores.files.segment import SegmentFile
from strandline.stores.files.syncing import failing
from strandline.values import ValueKind

#: The size of the frames of columns that it writes.
_FRAME_RECORDS = 16_384
_FRAME_BYTES = 4 * 1024 * 1024


def seal(store: PartitionWriter, compression: Compression | None) -> int:
    """Seal the last segment and rewrite segments of rows; return how many were rewritten."""
    if store.files.look() is None:
        return 0
    with failing(store.files), store.held():
        store.roll()
    if store.place.kind is ValueKind.BATCH:
        # Batches are columns already.
        return 0
    rewritten = 0
    while (segment := _next(store)) is not None:
        rewritten += _rewrite(store, segment, compression)
    return rewritten


def _next(store: PartitionWriter) -> StoredSegment | None:
    state = store.files.look()
    assert state is not None
    sealed = state.manifest.segments[:-1]
    return next((each for each in sealed if not each.is_columnar), None)


def _rewrite(store: PartitionWriter, old: StoredSegment, compression: Compression | None) -> bool:
    """Rewrite one segment, unless it was trimmed or the partition taken over meanwhile."""
    place = store.place
    manifest, fresh = begin_rewrite(store, old)
    epoch, seed = manifest.epoch, place.identity(manifest, fresh).seed
    assert old.end is not None
    assert old.position is not None
    source = store.files.segment(manifest, old)
    content = b"".join(_frames(source, old, place.kind, seed, compression))
    fresh = msgspec.structs.replace(
        old,
        epoch=fresh.epoch,
        number=fresh.number,
        position=write_segment(place, manifest, fresh, content),
        is_columnar=True,
        keeps_terms=True,
    )
    with failing(store.files), store.held() as manifest:
        is_wanted = manifest.epoch == epoch and old in manifest.segments
        if is_wanted:
            store.change(segments=_replaced(manifest, old, fresh))
    unwanted = old if is_wanted else fresh
    with contextlib.suppress(FileNotFoundError):
        place.io.unlink(place.segment_path(unwanted))
    return is_wanted


def _replaced(
    manifest: Manifest, old: StoredSegment, fresh: StoredSegment
) -> tuple[StoredSegment, ...]:
    return tuple(fresh if each == old else each for each in manifest.segments)


def _frames(
    source: SegmentFile,
    old: StoredSegment,
    kind: ValueKind,
    seed: int,
    compression: Compression | None,
) -> Iterator[bytes]:
    crc = 0
    for entries, appends, value in _runs(source, old, kind):
        batch = _columns(entries, kind)
        flags, body = encode_batch(batch, IS_MIXED, compression)
        if appends or value is not None:
            flags |= HAS_TERMS
            terms = (
                SealedTerms(chain=value, appends=appends) if appends else FrameTerms(chain=value)
            )
            body = encode_terms(terms) + body
        first, last = entries[0], entries[-1]
        about = (COLUMNS, flags, first.offset, len(entries), last.timestamp_us, LAG_UNKNOWN)
        frame, crc = encode_frame(seed, crc, about, body)
        yield frame


def _runs(
    source: SegmentFile, old: StoredSegment, kind: ValueKind
) -> Iterator[tuple[list[Entry], list[AppendIdentity], bytes | None]]:
    """Yield the records of each new frame, the identities of their appends, and
    the chain's value after the last of them.
    """
    assert old.end is not None
    assert old.position is not None
    run: list[Entry] = []
    appends: list[AppendIdentity] = []
    value: bytes | None = None
    size_bytes = 0
    for frame in source.frames(old.base, old.end, old.position):
        run += entries_of(frame, kind, source.path)
        appends += appends_in(frame)
        value = value_after(frame, source.path)
        size_bytes += frame.end - frame.position
        if len(run) >= _FRAME_RECORDS or size_bytes >= _FRAME_BYTES:
            yield run, appends, value
            run, appends, size_bytes = [], [], 0
    if run:
        yield run, appends, value


def _columns(entries: Sequence[Entry], kind: ValueKind) -> pa.RecordBatch:
    schema = frame_schema(kind, IS_MIXED)
    columns: list[Sequence[object]] = [
        [entry.timestamp_us for entry in entries],
        [entry.tenant for entry in entries],
        [entry.key for entry in entries],
    ]
    if kind is ValueKind.EVENT:
        bodies = [entry.body for entry in entries]
        columns += zip(*[body for body in bodies if isinstance(body, EventBody)], strict=True)
    else:
        columns.append([entry.body for entry in entries])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
