"""A file that a room above has written becomes a sealed segment, without copying its rows.

It has an Arrow message for each frame, and zeros where the segment's header and the heads of
frames go. See design 0135.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import Final

import google_crc32c
import msgspec

from strandline.io import Io
from strandline.log.identities import Original
from strandline.log.staged import StagedLayout, StagedRows
from strandline.stores.files.frame import (
    COLUMNS,
    HAS_TERMS,
    HEADER,
    HEADER_BYTES,
    LAG_UNKNOWN,
    MAGIC,
    FrameTerms,
    encode_terms,
)
from strandline.stores.files.joined_crc import joined_crc
from strandline.stores.files.manifest import StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.place import SEGMENTS, Place
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.syncing import failing
from strandline.stores.files.writing_settings import WritingSettings
from strandline.stores.open_file import OpenFile
from strandline.values import Offset, StrandlineError, ValueKind

_CRC_BYTES: Final = 4
_CANNOT_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


def layout_of(place: Place, settings: WritingSettings, key: str) -> StagedLayout | None:
    """Return how a file for a partition is laid out; None if it cannot be ingested.

    A proof and a compression need the rows themselves.
    """
    if place.kind is not ValueKind.EVENT or place.is_proved or settings.compression is not None:
        return None
    return StagedLayout(FRAMES_AT, HEADER_BYTES + len(_terms(key)))


def ingest(store: PartitionWriter, path: str, rows: Sequence[StagedRows]) -> int | None:
    """Make a file the last segment but one; see StagingStore."""
    place, io = store.place, store.place.io
    with failing(store.files), store.held():
        store.roll()
        head = store.head
        now_us = max(place.clock.now_us(), head.last_us)
        identities = head.identities(now_us)
        if any(identities.find_key(None, each.idempotency_key, each.records) for each in rows):
            return None
        start, number = head.next, store.manifest.next_number
        taken = _segment(StoredSegment(store.manifest.epoch.number, number, start), rows, now_us)
        # Before a file of this name has frames: see `newer_segment`.
        store.change(next_number=number + 2)
        target = place.segment_path(taken)
        if not _fill(store, path, taken, rows) or not _link(io, path, target):
            return None
        manifest = store.manifest
        fresh = StoredSegment(taken.epoch, number + 1, start + sum(each.records for each in rows))
        kept, empty = manifest.segments[:-1], manifest.active
        changed = msgspec.structs.replace(
            manifest, generation=manifest.generation + 1, segments=(*kept, taken, fresh)
        )
        try:
            store.begin_segment(changed)
        except BaseException:
            _remove_unnamed(place, taken)
            raise
        for offset, each in zip(_offsets(start, rows), rows, strict=True):
            original = Original(Offset(offset), now_us, each.records)
            identities.add_key(None, each.idempotency_key, original)
    with contextlib.suppress(FileNotFoundError):
        io.unlink(place.segment_path(empty))
    return start


def _remove_unnamed(place: Place, taken: StoredSegment) -> None:
    """Remove the second name of a file that is no segment: it would keep its space."""
    with contextlib.suppress(OSError, StrandlineError):
        manifest = place.load_manifest()
        if manifest is not None and taken not in manifest.segments:
            place.io.unlink(place.segment_path(taken))


def discard(store: PartitionWriter, path: str) -> None:
    """Remove every name of a file in the folder of segments that is no segment's."""
    place, io = store.place, store.place.io
    directory = place.path(SEGMENTS)
    with failing(store.files), store.held() as manifest:
        kept = {each.name for each in manifest.segments}
        wanted = io.identity(path)
        for name in set(io.list(directory)) - kept:
            other = os.path.join(directory, name)
            # Files that a seal has replaced go without a lock.
            with contextlib.suppress(FileNotFoundError):
                if io.identity(other) == wanted:
                    io.unlink(other)
                    io.sync_directory(directory)


def _segment(named: StoredSegment, rows: Sequence[StagedRows], timestamp_us: int) -> StoredSegment:
    return msgspec.structs.replace(
        named,
        end=named.base + sum(each.records for each in rows),
        position=rows[-1].position + rows[-1].length,
        first_us=timestamp_us,
        last_us=timestamp_us,
        size_bytes=sum(each.size_bytes for each in rows),
    )


def _offsets(start: int, rows: Sequence[StagedRows]) -> Iterator[int]:
    for each in rows:
        yield start
        start += each.records


def _fill(
    store: PartitionWriter, path: str, taken: StoredSegment, rows: Sequence[StagedRows]
) -> bool:
    """Write the heads of segment and frames; durable then. False if this is no such file."""
    place, io = store.place, store.place.io
    identity = place.identity(store.manifest, taken)
    heads = [*_heads(identity.seed, taken, rows)]
    if heads[0][0] != FRAMES_AT or not _follow_on_each_other(heads, rows):
        return False
    file = OpenFile(io, path, "write")
    try:
        if io.size(file.fd) != taken.position:
            return False
        io.pwrite(file.fd, identity.header(taken.base), 0)
        for position, head in heads:
            io.pwrite(file.fd, head, position)
        io.sync(file.fd)
    finally:
        file.close()
    return True


def _follow_on_each_other(heads: Sequence[tuple[int, bytes]], rows: Sequence[StagedRows]) -> bool:
    ends = [each.position + each.length for each in rows]
    return all(at == end for (at, _), end in zip(heads[1:], ends, strict=False))


def _heads(
    seed: int, taken: StoredSegment, rows: Sequence[StagedRows]
) -> Iterator[tuple[int, bytes]]:
    """Yield where the head of each frame begins, and all of the frame before the message."""
    previous = 0
    for base, each in zip(_offsets(taken.base, rows), rows, strict=True):
        terms = _terms(each.idempotency_key)
        length = len(terms) + each.length
        # What lies before the segment is durable.
        lag = min(base - taken.base, LAG_UNKNOWN)
        about = (COLUMNS, HAS_TERMS, previous, length, base, taken.last_us, each.records, lag)
        rest = HEADER.pack(0, MAGIC, *about)[_CRC_BYTES:] + terms
        crc = joined_crc(google_crc32c.extend(seed, rest), each.crc, each.length)
        yield each.position - _CRC_BYTES - len(rest), crc.to_bytes(_CRC_BYTES, "little") + rest
        previous = crc


def _terms(key: str) -> bytes:
    return encode_terms(FrameTerms(idempotency_key=key))


def _link(io: Io, source: str, target: str) -> bool:
    """Give the file the name of the segment; False where the file system cannot."""
    try:
        io.link(source, target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return False
    return True
