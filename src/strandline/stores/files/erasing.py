"""Erases the records of a key: rewrites each segment that has one, with tombstones."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa

from strandline.log.erased import size_of_tombstone, tombstone
from strandline.log.history import EventBody
from strandline.log.store import Erased
from strandline.stores.files.columnar import compression_of, encode_batch, frame_schema
from strandline.stores.files.entries import Entry, entries_of
from strandline.stores.files.frame import (
    HAS_TERMS,
    IS_MIXED,
    LAG_UNKNOWN,
    NO_HEADERS,
    ROWS,
    Frame,
    encode_frame,
    encode_terms,
    split_terms,
)
from strandline.stores.files.keys import FileKeys
from strandline.stores.files.manifest import StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.place import SEGMENTS, Place
from strandline.stores.files.rewriting import begin_rewrite, write_segment
from strandline.stores.files.segment import SegmentFile
from strandline.stores.files.syncing import failing
from strandline.stores.files.topics import TopicEntry
from strandline.values import ValueKind

_decode_names = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.msgpack.Encoder().encode

Noting = Callable[[Sequence[str]], None]
"""Stores, durably, the list of files to remove; an empty list once they are removed."""


class ErasedFiles:
    """Files that an erasure of a partition still has to remove, stored under a topic's key."""

    def __init__(self, keys: FileKeys, topic: TopicEntry, partition: int) -> None:
        self._keys = keys
        self._topic = topic
        self._key = f"erasing/{partition}"

    def load(self) -> Sequence[str]:
        """Return the files listed by an erasure and not removed yet."""
        raw = self._keys.get(self._topic, self._key)
        return [] if raw is None else _decode_names(raw)

    def note(self, names: Sequence[str]) -> None:
        """Add files to the list of those to remove; an empty argument clears the list."""
        raw = self._keys.get(self._topic, self._key)
        if not names:
            self._keys.remove(self._topic, self._key)
            return
        known = [] if raw is None else _decode_names(raw)
        self._keys.put(self._topic, self._key, msgspec.json.encode(sorted({*known, *names})), raw)


def count(store: PartitionWriter, key: str) -> int:
    """Return how many records a key has, in all segments."""
    state = store.files.look()
    if state is None:
        return 0
    found = 0
    for stored in state.manifest.segments:
        end, position = state.end_of(stored)
        if stored.base < end:
            source = store.files.segment(state.manifest, stored)
            frames = source.frames(stored.base, end, position)
            found += sum(_hits(frame, store.place, source, key) for frame in frames)
    return found


def erase(store: PartitionWriter, key: str, old: Sequence[str], note: Noting) -> Erased:
    """Replace the records of a key with tombstones.

    `old` are files that an earlier erasure listed and did not remove.
    """
    if store.files.look() is None:
        return Erased(0)
    if old:
        _remove(store, old)
        note(())
    if not count(store, key):
        return Erased(0)
    with failing(store.files), store.held():
        store.roll()
    records = 0
    while (found := _next(store, key)) is not None:
        records += _rewrite(store, found, key, note)
    return Erased(records)


def _next(store: PartitionWriter, key: str) -> StoredSegment | None:
    state = store.files.look()
    assert state is not None
    for stored in state.manifest.segments[:-1]:
        assert stored.end is not None
        assert stored.position is not None
        source = store.files.segment(state.manifest, stored)
        for frame in source.frames(stored.base, stored.end, stored.position):
            if _hits(frame, store.place, source, key):
                return stored
    return None


def _hits(frame: Frame, place: Place, source: SegmentFile, key: str) -> int:
    return sum(entry.key == key for entry in entries_of(frame, place.kind, source.path))


def _rewrite(store: PartitionWriter, old: StoredSegment, key: str, note: Noting) -> int:
    """Rewrite one segment, unless it was replaced meanwhile; return how many were erased."""
    place = store.place
    manifest, fresh = begin_rewrite(store, old)
    epoch, seed = manifest.epoch, place.identity(manifest, fresh).seed
    writing = _Rewriting(place, store.files.segment(manifest, old), key, seed)
    path, content = place.segment_path(fresh), b"".join(writing.frames(old))
    fresh = msgspec.structs.replace(
        old,
        epoch=fresh.epoch,
        number=fresh.number,
        position=write_segment(place, manifest, fresh, content),
        size_bytes=old.size_bytes + writing.grown_bytes,
    )
    # Listed before the manifest names the new file: a crash must leave no unlisted file.
    note((os.path.basename(place.segment_path(old)), os.path.basename(path)))
    with failing(store.files), store.held() as manifest:
        # Another erasure may have removed the file, which is listed and not in the manifest.
        is_there = old in manifest.segments and place.io.exists(path)
        is_wanted = manifest.epoch == epoch and is_there
        if is_wanted:
            segments = tuple(fresh if each == old else each for each in manifest.segments)
            trimmed = manifest.trimmed_bytes
            if old == manifest.segments[0]:
                trimmed += writing.grown_below(manifest.low)
            store.change(segments=segments, trimmed_bytes=trimmed)
    _remove(store, [os.path.basename(place.segment_path(each)) for each in (old, fresh)])
    note(())
    return writing.records if is_wanted else 0


def _remove(store: PartitionWriter, names: Sequence[str]) -> None:
    """Remove those of these segment files that the manifest does not name."""
    place = store.place
    directory = place.path(SEGMENTS)
    with failing(store.files), store.held() as manifest:
        kept = {each.name for each in manifest.segments}
        for name in names:
            if name not in kept:
                with contextlib.suppress(FileNotFoundError):
                    place.io.unlink(os.path.join(directory, name))
        place.io.sync_directory(directory)


class _Rewriting:
    """The frames of one segment, written again."""

    def __init__(self, place: Place, source: SegmentFile, key: str, seed: int) -> None:
        self._place = place
        self._source = source
        self._key = key
        self._seed = seed
        self.records = 0
        #: By offset: how many bytes larger each erased record is counted than before.
        self._grown: dict[int, int] = {}

    @property
    def grown_bytes(self) -> int:
        """How many bytes larger all records are counted than before; usually negative."""
        return sum(self._grown.values())

    def grown_below(self, low: int) -> int:
        """Return the same for the records below an offset."""
        return sum(grown for offset, grown in self._grown.items() if offset < low)

    def frames(self, old: StoredSegment) -> Iterator[bytes]:
        """Yield the frames of a segment, with erased records replaced by tombstones."""
        assert old.end is not None
        assert old.position is not None
        crc = 0
        for frame in self._source.frames(old.base, old.end, old.position):
            entries = entries_of(frame, self._place.kind, self._source.path)
            flags, body = frame.flags, frame.body
            if any(entry.key == self._key for entry in entries):
                flags, body = self._written(frame, [self._erased(each) for each in entries])
            about = (frame.kind, flags, frame.base, frame.records, frame.timestamp_us, LAG_UNKNOWN)
            encoded, crc = encode_frame(self._seed, crc, about, body)
            yield encoded

    def _erased(self, entry: Entry) -> Entry:
        if entry.key != self._key:
            return entry
        place = self._place
        digest = place.chain.digest_kept(entry) if place.is_proved else None
        body = tombstone(place.kind, digest)
        size = size_of_tombstone(body)
        self.records += 1
        self._grown[entry.offset] = size - entry.size_bytes
        return entry._replace(key=None, body=body, size_bytes=size)

    def _written(self, frame: Frame, entries: list[Entry]) -> tuple[int, bytes]:
        terms, _ = split_terms(frame)
        if frame.kind == ROWS:
            flags, body = 0, _encode([_row(entry) for entry in entries])
        else:
            mixed = frame.flags & IS_MIXED
            batch = _batch(entries, self._place.kind, mixed)
            flags, packed = encode_batch(batch, mixed, compression_of(frame.flags))
            body = bytes(packed)
        if terms is None:
            return flags, body
        return flags | HAS_TERMS, encode_terms(terms) + body


def _row(entry: Entry) -> tuple[object, ...]:
    body = entry.body
    if isinstance(body, EventBody):
        kind, payload, headers, occurred = body
        return entry.key, kind, payload, None if headers == NO_HEADERS else headers, occurred
    return entry.key, bytes(body)


def _batch(entries: Sequence[Entry], kind: ValueKind, mixed: int) -> pa.RecordBatch:
    schema = frame_schema(kind, mixed)
    columns: list[Sequence[object]] = [[entry.key for entry in entries]]
    if mixed:
        stamps = [entry.timestamp_us for entry in entries]
        columns = [stamps, [entry.tenant for entry in entries], *columns]
    bodies = [entry.body for entry in entries]
    if kind is ValueKind.EVENT:
        columns += zip(*[body for body in bodies if isinstance(body, EventBody)], strict=True)
    else:
        columns.append(bodies)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
