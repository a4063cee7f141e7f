"""A copy of a log's directory, made while others write: each partition as it was at one moment.

A reader's rules are enough for that. What a manifest names and a tail covers never changes
in place. If a file has gone, or the manifest has changed meanwhile, the partition is read
again, and only what is new is copied. The copy has no tails: each of its partitions ends
in an empty segment of a new epoch.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

import msgspec

from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo, real_path
from strandline.log.copies import (
    CopiedPartition,
    Ends,
    Progress,
    check_known,
    check_provable,
    end_of_copy,
)
from strandline.log.store import dropped
from strandline.stores.files.beginning import NO_LOCK
from strandline.stores.files.entries import entries_of
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.keys import SUFFIX
from strandline.stores.files.manifest import (
    Manifest,
    StoredEpoch,
    StoredSegment,
    manifest_name,
    store_manifest,
)
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.place import SEGMENTS
from strandline.stores.files.proving import value_before
from strandline.stores.files.root import IDENTITY, TOPICS, Root
from strandline.stores.files.segment import SegmentFile
from strandline.stores.files.shortening import shortened
from strandline.stores.files.state import State
from strandline.stores.files.succession import make_segment
from strandline.stores.files.topics import KEYS, FileTopics, TopicEntry
from strandline.stores.new_place import new_place
from strandline.stores.open_file import OpenFile
from strandline.values import CorruptError, DroppedError, Marks, Mode, Offset, UnavailableError
from strandline.values.names import RESERVED_PREFIX

_CHUNK_BYTES = 1 << 20
_TRIES = 100
_LOCK_TIMEOUT_S = 10.0


def copy_file_log(
    source: str,
    target: str,
    *,
    ends: Ends | None = None,
    progress: Progress | None = None,
    io: Io | None = None,
    clock: Clock | None = None,
) -> list[CopiedPartition]:
    """Copy the log in the directory `source` to `target`, which must not exist.

    Everything is durable when this returns. A copy that fails leaves no `target`.
    """
    files = io if io is not None else SystemIo()
    ours = clock if clock is not None else SystemClock()
    root = Root(real_path(source), Mode.READ, files, ours, _LOCK_TIMEOUT_S)
    with new_place(files, ours, target, partial(_remove, files)) as made:
        return _Copy(root, made, ends or {}, progress).run()


class _Sealed(NamedTuple):
    """The last segment of a copy, and how much of the original is copied."""

    stored: StoredSegment
    #: Written after the copied bytes: a shortened frame.
    rest: bytes = b""


class _Copy:
    def __init__(self, root: Root, target: str, ends: Ends, progress: Progress | None) -> None:
        self._io = root.io
        self._root = root
        self._target = target
        self._ends = ends
        self._progress = progress
        #: By topic id: the keys that existed before the records were copied.
        self._keys: dict[UUID, frozenset[str]] = {}

    def run(self) -> list[CopiedPartition]:
        entries = self._entries()
        check_known(
            self._ends,
            (
                (entry.topic.id, number)
                for entry in entries
                for number in range(entry.settings.partitions)
            ),
        )
        self._io.mkdir(self._target)
        self._io.mkdir(os.path.join(self._target, TOPICS))
        # Before any record, so that no cursor is ahead of the records.
        for entry in entries:
            self._copy_keys(entry)
        copied = [each for entry in entries for each in self._copy_topic(entry)]
        self._io.sync_directory(os.path.join(self._target, TOPICS))
        identity = os.path.join(self._root.path, IDENTITY)
        self._copy_file(identity, os.path.join(self._target, IDENTITY))
        self._io.sync_directory(self._target)
        return copied

    def _entries(self) -> list[TopicEntry]:
        """Return the topics, internal ones last: the topics they refer to are then in the copy."""
        entries = FileTopics(self._root).all()
        return sorted(
            entries, key=lambda each: (each.topic.name.startswith(RESERVED_PREFIX), each.path)
        )

    def _directory(self, entry: TopicEntry) -> str:
        return os.path.join(self._target, TOPICS, str(entry.topic.id))

    def _copy_keys(self, entry: TopicEntry) -> None:
        directory = os.path.join(self._directory(entry), KEYS)
        self._io.mkdir(os.path.dirname(directory))
        self._io.mkdir(directory)
        source = os.path.join(entry.directory, KEYS)
        # The consumer was deleted meanwhile, or the topic was dropped.
        with contextlib.suppress(FileNotFoundError):
            found = FileTopics(self._root).fresh(entry)
            self._keys[entry.topic.id] = frozenset() if found is None else found.keys
            for name in self._io.list(source):
                if name.endswith(SUFFIX):
                    with contextlib.suppress(FileNotFoundError):
                        path = os.path.join(source, name)
                        self._copy_file(path, os.path.join(directory, name))
        self._io.sync_directory(directory)

    def _copy_settings(self, entry: TopicEntry, directory: str) -> None:
        topics = FileTopics(self._root)
        found = topics.fresh(entry)
        if found is None:
            raise dropped(entry.topic)
        path = os.path.join(directory, os.path.basename(entry.path))
        # Keys added since then are not in the copy.
        keys = found.keys & self._keys.get(entry.topic.id, frozenset())
        if keys == found.keys:
            self._copy_file(entry.path, path)
        else:
            topics.store(replace(found, path=path, keys=keys))

    def _copy_topic(self, entry: TopicEntry) -> list[CopiedPartition]:
        directory = self._directory(entry)
        copied = []
        try:
            for files in entry.partitions:
                copied.append(self._copy_partition(files, directory))
                files.close_files()
            self._copy_settings(entry, directory)
        except (CorruptError, DroppedError, FileNotFoundError):
            if FileTopics(self._root).fresh(entry) is not None:
                raise
            _remove(self._io, directory)
            return []
        self._io.sync_directory(directory)
        if self._progress is not None:
            for each in copied:
                self._progress(each)
        return copied

    def _copy_partition(self, files: PartitionFiles, topic_directory: str) -> CopiedPartition:
        directory = os.path.join(topic_directory, str(files.place.partition))
        self._io.mkdir(directory)
        self._io.mkdir(os.path.join(directory, SEGMENTS))
        try:
            copied = _PartitionCopy(files, directory, self._ends).run()
        finally:
            files.close_files()
        self._io.sync_directory(directory)
        return copied

    def _copy_file(self, source: str, target: str) -> None:
        _copy_bytes(self._io, source, target, None)


class _PartitionCopy:
    def __init__(self, files: PartitionFiles, directory: str, ends: Ends) -> None:
        self._files = files
        self._place = files.place
        self._io = files.place.io
        self._directory = directory
        self._ends = ends
        #: Names of segment files in the copy, with the number of bytes copied.
        self._done: dict[str, int] = {}

    def run(self) -> CopiedPartition:
        for _ in range(_TRIES):
            state = self._files.look()
            marks = Marks(Offset(0), Offset(0), Offset(0)) if state is None else state.marks
            end = end_of_copy(self._place.topic, self._place.partition, marks, self._ends)
            if state is None:
                return self._copied(marks.low, end)
            if self._place.is_proved:
                check_provable(self._place.topic, self._place.partition, end, state.local)
            failure: CorruptError | FileNotFoundError | None = None
            try:
                self._copy(state, end)
            except (CorruptError, FileNotFoundError) as error:
                # A segment that is missing may have been trimmed or rewritten meanwhile.
                failure = error
            newest = self._files.look()
            if newest is not None and newest.manifest == state.manifest:
                if failure is not None:
                    raise failure
                return self._copied(state.marks.low, end)
        raise UnavailableError(
            "the partition changes faster than it can be copied, try again",
            topic=self._place.topic.name,
            partition=self._place.partition,
        )

    def _copied(self, low: int, end: int) -> CopiedPartition:
        return CopiedPartition(self._place.topic, self._place.partition, Offset(low), Offset(end))

    def _copy(self, state: State, end: int) -> None:
        self._clear()
        kept = list(self._kept(state, end))
        for sealed in kept:
            self._copy_segment(sealed)
        names = {sealed.stored.name for sealed in kept}
        for name in self._done.keys() - names:
            self._io.unlink(self._path(name))
            del self._done[name]
        manifest = self._manifest(state, tuple(sealed.stored for sealed in kept), end)
        active = manifest.active
        header = self._place.identity(manifest, active).header(end)
        make_segment(self._io, self._path(active.name), header).close()
        self._done[active.name] = 0
        if manifest.has_identities:
            IdentityWindow(self._files).store_copy(state, manifest, self._directory, end)
        path = os.path.join(self._directory, manifest_name(manifest.epoch.number))
        unique = str(self._place.clock.new_id())
        store_manifest(self._io, path, manifest, unique, lambda: None)

    def _clear(self) -> None:
        """Remove what an earlier attempt left, except for the segments."""
        for name in self._io.list(self._directory):
            if name != SEGMENTS:
                self._io.unlink(os.path.join(self._directory, name))

    def _kept(self, state: State, end: int) -> Iterator[_Sealed]:
        if end <= state.local:
            return
        for stored in state.manifest.segments:
            if stored.base >= end:
                return
            stop, position = state.end_of(stored)
            if end < stop:
                yield self._shortened(state, stored, end, position)
            elif stored.end is None:
                yield _Sealed(
                    msgspec.structs.replace(
                        stored,
                        end=stop,
                        position=position,
                        first_us=self._files.first_timestamp(state.manifest, stored, position),
                        last_us=state.last_us,
                        size_bytes=state.active_bytes,
                    )
                )
            else:
                yield _Sealed(stored)

    def _shortened(self, state: State, stored: StoredSegment, end: int, position: int) -> _Sealed:
        segment = self._files.segment(state.manifest, stored)
        frame = next(segment.frames(end - 1, end, position))
        rest, last_us = b"", frame.timestamp_us
        copied_to = frame.end
        if frame.stop > end:
            place = self._place
            chain = value_before(self._files, state, end) if place.is_proved else None
            rest, last_us = shortened(frame, end - frame.base, place.kind, segment.seed, chain)
            copied_to = frame.position
        return _Sealed(
            msgspec.structs.replace(
                stored,
                end=end,
                position=copied_to + len(rest),
                first_us=self._files.first_timestamp(state.manifest, stored, position),
                last_us=last_us,
                size_bytes=self._size_before(segment, stored.base, end, position),
            ),
            rest,
        )

    def _size_before(self, segment: SegmentFile, base: int, end: int, position: int) -> int:
        return sum(
            entry.size_bytes
            for frame in segment.frames(base, end, position)
            for entry in entries_of(frame, self._place.kind, segment.path)
            if entry.offset < end
        )

    def _copy_segment(self, sealed: _Sealed) -> None:
        stored = sealed.stored
        assert stored.position is not None
        if self._done.get(stored.name) == stored.position and not sealed.rest:
            return
        source, target = self._place.segment_path(stored), self._path(stored.name)
        with contextlib.suppress(FileNotFoundError):
            self._io.unlink(target)
        length = stored.position - len(sealed.rest)
        _copy_bytes(self._io, source, target, length, sealed.rest)
        self._done[stored.name] = stored.position

    def _manifest(self, state: State, segments: tuple[StoredSegment, ...], end: int) -> Manifest:
        old = state.manifest
        # All epochs: a rewritten segment has an epoch later than its records.
        epochs = tuple(
            msgspec.structs.replace(each, start=min(each.start, end)) for each in old.epochs
        )
        fresh = StoredEpoch(old.epoch.number + 1, self._place.clock.new_id(), end)
        return msgspec.structs.replace(
            old,
            generation=old.generation + 1,
            epochs=(*epochs, fresh),
            segments=(*segments, StoredSegment(fresh.number, 1, end)),
            trimmed_bytes=old.trimmed_bytes if segments else 0,
            lock=NO_LOCK,
            next_number=2,
            local=min(old.local, end),
        )

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, SEGMENTS, name)


def _copy_bytes(io: Io, source: str, target: str, length: int | None, rest: bytes = b"") -> None:
    """Copy the first `length` bytes of a file, or all of it, then append `rest`; durably."""
    read = OpenFile(io, source, "read")
    try:
        wanted = io.size(read.fd) if length is None else length
        written = OpenFile(io, target, "create_new")
        try:
            at = 0
            while at < wanted:
                data = io.pread(read.fd, min(_CHUNK_BYTES, wanted - at), at)
                if not data:
                    break
                io.pwrite(written.fd, data, at)
                at += len(data)
            if rest:
                io.pwrite(written.fd, rest, wanted)
            io.sync(written.fd)
        finally:
            written.close()
    finally:
        read.close()


def _remove(io: Io, path: str) -> None:
    """Remove a directory with all its contents, as far as possible."""
    with contextlib.suppress(OSError):
        for name in io.list(path):
            inner = os.path.join(path, name)
            if io.stat(inner).is_directory:
                _remove(io, inner)
            else:
                io.unlink(inner)
        io.rmdir(path)
