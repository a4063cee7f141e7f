"""Beginning an epoch: the only way in which a partition permanently gets a new owner.

A process claims an epoch by creating its tail file, which fails if another process has. It
then fences the tails of all earlier epochs, so that their writers acknowledge nothing any
more. Only then it reads the last end, syncs the old segment and seals it there, makes a
new one, and publishes the new epoch's manifest. A process that is suspended in the middle
and continues later finds its own tail fenced.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from strandline.io import Io
from strandline.stores.disk_reserve import DiskReserve
from strandline.stores.files.appends import Head
from strandline.stores.files.entries import entries_of
from strandline.stores.files.frame import LAG_UNKNOWN, Frame, encode_frame
from strandline.stores.files.manifest import (
    MANIFEST,
    TAIL,
    Manifest,
    StoredEpoch,
    StoredSegment,
    epochs_in,
    manifest_name,
    store_manifest,
    tail_name,
)
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_lock import PartitionLock
from strandline.stores.files.recovery import Found
from strandline.stores.files.segment import FRAMES_AT, SegmentFile, SegmentIdentity
from strandline.stores.files.state import agrees
from strandline.stores.files.syncing import last_certain
from strandline.stores.files.tail import (
    DURABLE_AT,
    FENCE_AT,
    NO_FENCE,
    TAIL_BYTES,
    UNSEALED,
    Durable,
    End,
    Fence,
    Tail,
    durable_at,
    pack_durable,
    pack_end,
    pack_fence,
    read_tail,
)
from strandline.stores.open_file import OpenFile
from strandline.values import CorruptError, UnavailableError

#: The minimum and maximum of the space reserved ahead.
RESERVE_MIN_BYTES = 16 * 1024
RESERVE_MAX_BYTES = 1024 * 1024

_logger = logging.getLogger("strandline")


class OwnedEpoch(NamedTuple):
    """What the current owner of an epoch works with."""

    manifest: Manifest
    tail: OpenFile
    segment: OpenFile
    seed: int
    end: End
    durable: Durable
    #: Bytes of a torn write at the end of the previous epoch.
    torn_bytes: int = 0
    #: Whether that epoch lost records that had been durable.
    is_damaged: bool = False


class _Inherited(NamedTuple):
    """What a new epoch takes over from the previous one."""

    manifest: Manifest
    #: The last segment, as far as it is kept.
    sealed: StoredSegment
    next: int
    last_us: int
    #: Frames above the durable mark in a file whose sync failed, or above the end in
    #: the tail.
    copied: tuple[Frame, ...] = ()
    copied_bytes: int = 0
    #: Whether readers may have seen the copied frames.
    are_copied_visible: bool = False
    torn_bytes: int = 0
    is_damaged: bool = False

    def fence(self, number: int) -> Fence:
        """Return where the old epoch ends for readers until the new one is published."""
        if self.copied and self.are_copied_visible:
            return Fence(number, self.next, self.copied[-1].end)
        assert self.sealed.end is not None
        return Fence(number, self.sealed.end, self.sealed.position or UNSEALED)


def begin_epoch(files: PartitionFiles, lock: PartitionLock, pid: int) -> OwnedEpoch:
    """Begin a new epoch; the caller holds the lock.

    UnavailableError if another process begins one at the same time.
    """
    return _Succession(files, lock, pid).run()


class _Succession:
    def __init__(self, files: PartitionFiles, lock: PartitionLock, pid: int) -> None:
        self._files = files
        self._place = files.place
        self._io = files.place.io
        self._lock = lock
        self._pid = pid

    def run(self) -> OwnedEpoch:
        number, tail = self._claim()
        old = self._place.load_manifest()
        self._fence(range(old.epoch.number if old is not None else 0, number), number)
        # Read again: the owner of an epoch in between may have published it by now.
        old = self._place.load_manifest()
        inherited = None if old is None else self._inherit(old, number)
        owned = self._publish(number, tail, inherited)
        if self._io.pread(tail.fd, len(NO_FENCE), FENCE_AT) != NO_FENCE:
            raise UnavailableError("another process has just taken the partition over, try again")
        self._tidy(owned.manifest, None if inherited is None else inherited.manifest)
        return owned

    # --- claim, fence, seal ---

    def _claim(self) -> tuple[int, OpenFile]:
        while True:
            names = self._io.list(self._place.directory)
            taken = epochs_in(names, TAIL) + epochs_in(names, MANIFEST)
            number = max(taken, default=-1) + 1
            with contextlib.suppress(FileExistsError):
                path = self._place.path(tail_name(number))
                make = partial(OpenFile, self._io, path, "create_new")
                tail = self._place.reserve.spend(make)
                # Extended without writing: another process may have fenced it already.
                self._io.truncate(tail.fd, TAIL_BYTES)
                return number, tail

    def _fence(self, epochs: Sequence[int], number: int) -> None:
        for epoch in epochs:
            with self._old_tail(epoch) as tail:
                if tail is None:
                    continue
                seed = self._place.tail_seed(epoch)
                before = read_tail(self._io, tail.fd, seed).end
                self._write_fence(tail, seed, number, before)
                after = read_tail(self._io, tail.fd, seed).end
                if after != before:
                    # Written before the fence, and perhaps acknowledged.
                    self._write_fence(tail, seed, number, after)

    def _write_fence(self, tail: OpenFile, seed: int, number: int, end: End | None) -> None:
        fence = Fence(number) if end is None else Fence(number, end.next, end.position)
        self._io.pwrite(tail.fd, pack_fence(seed, fence), FENCE_AT)

    @contextlib.contextmanager
    def _old_tail(self, epoch: int) -> Iterator[OpenFile | None]:
        try:
            tail = OpenFile(self._io, self._place.path(tail_name(epoch)), "write")
        except FileNotFoundError:
            yield None
            return
        try:
            yield tail
        finally:
            tail.close()

    def _inherit(self, old: Manifest, number: int) -> _Inherited:
        with self._old_tail(old.epoch.number) as file:
            seed = self._place.tail_seed(old.epoch.number)
            tail = Tail(None, None, None) if file is None else read_tail(self._io, file.fd, seed)
            if self._is_older(old, tail.end):
                # A fenced writer had checked its lock before, and has begun another segment since.
                return self._inherit(self._newer(old), number)
            durable = tail.durable
            if durable is not None and durable.is_failed:
                inherited = self._after_failed_sync(old, durable)
            else:
                inherited = self._after_sync(old, file, tail)
            if file is not None:
                self._io.pwrite(file.fd, pack_fence(seed, inherited.fence(number)), FENCE_AT)
        return inherited

    def _is_older(self, manifest: Manifest, end: End | None) -> bool:
        """Whether the end belongs to a later manifest: its segment may be missing in this one."""
        return end is not None and end.generation > manifest.generation

    def _newer(self, old: Manifest) -> Manifest:
        newest = self._place.load_manifest()
        if newest is None or (newest.epoch, newest.generation) == (old.epoch, old.generation):
            path = self._place.path(old.tail)
            raise CorruptError(
                "the tail refers to a newer manifest than there is", file=path, position=0
            )
        return newest

    def _after_sync(self, old: Manifest, file: OpenFile | None, tail: Tail) -> _Inherited:
        """Return everything up to the end, once it is durable."""
        end = tail.end
        if end is not None and end.boot == self._io.boot_id() and agrees(old, end):
            return self._after_tail_end(old, file, tail, end)
        return self._after_found_end(old, file, tail, self._files.find_end(old, tail.durable))

    def _after_found_end(
        self, old: Manifest, file: OpenFile | None, tail: Tail, found: Found
    ) -> _Inherited:
        last_us = found.last_us
        self._sync(old, file, tail.durable)
        sealed = self._sealed(old, found.next, found.position, last_us, found.size_bytes)
        return _Inherited(
            *(old, sealed, found.next, last_us),
            torn_bytes=found.torn_bytes,
            is_damaged=found.damaged_at is not None,
        )

    def _after_tail_end(
        self, old: Manifest, file: OpenFile | None, tail: Tail, end: End
    ) -> _Inherited:
        """Return everything up to the tail's end, and whole frames that follow it.

        Such frames were left by a crash, or the tail is an older copy. They are copied before
        readers see them, because a fenced writer may still overwrite them in place.
        """
        if end.segment != old.active.number:
            end = end._replace(segment=old.active.number, position=FRAMES_AT, crc=0, size_bytes=0)
        found = self._files.find_end(old, durable_at(end))
        if found.damaged_at is not None:
            return self._after_found_end(old, file, tail, found)
        segment = self._files.segment(old, old.active)
        frames = tuple(segment.scan(end.position, end.next, end.crc))
        self._sync(old, file, tail.durable)
        sealed = self._sealed(old, end.next, end.position, end.last_us, end.size_bytes)
        inherited = _Inherited(old, sealed, end.next, end.last_us)
        return self._with_copied(inherited, segment, frames)

    def _sync(self, old: Manifest, file: OpenFile | None, known: Durable | None) -> None:
        try:
            self._io.sync(self._files.segment(old, old.active).fd)
        except OSError:
            # Another sync may succeed although frames are lost: the next one copies them.
            if file is not None:
                mark = last_certain(known, old.active.number, old)
                seed = self._place.tail_seed(old.epoch.number)
                self._io.pwrite(file.fd, pack_durable(seed, mark), DURABLE_AT)
            raise

    def _after_failed_sync(self, old: Manifest, durable: Durable) -> _Inherited:
        """Return what was durable before a sync failed, and what can still be read after it."""
        _, _, position, next_, crc, last_us, size_bytes = durable
        sealed = self._sealed(old, next_, position, last_us, size_bytes)
        segment = self._files.segment(old, old.active)
        frames = tuple(segment.scan(position, next_, crc))
        inherited = _Inherited(old, sealed, next_, last_us)
        return self._with_copied(inherited, segment, frames)._replace(are_copied_visible=True)

    def _with_copied(
        self, inherited: _Inherited, segment: SegmentFile, frames: tuple[Frame, ...]
    ) -> _Inherited:
        if not frames:
            return inherited
        copied_bytes = sum(
            entry.size_bytes
            for frame in frames
            for entry in entries_of(frame, self._place.kind, segment.path)
        )
        return inherited._replace(
            next=frames[-1].stop,
            last_us=frames[-1].timestamp_us,
            copied=frames,
            copied_bytes=copied_bytes,
        )

    def _sealed(
        self, old: Manifest, end: int, position: int, last_us: int, size_bytes: int
    ) -> StoredSegment:
        first_us = self._files.first_timestamp(old, old.active, position)
        return msgspec.structs.replace(
            old.active,
            end=end,
            position=position,
            first_us=first_us,
            last_us=last_us,
            size_bytes=size_bytes,
        )

    # --- the new epoch ---

    def _publish(self, number: int, tail: OpenFile, inherited: _Inherited | None) -> OwnedEpoch:
        place = self._place
        if inherited is None:
            epochs: tuple[StoredEpoch, ...] = (StoredEpoch(0, place.first_epoch_id(), 0),)
            manifest = Manifest(
                place.log_id,
                place.topic.id,
                place.partition,
                generation=0,
                epochs=epochs,
                segments=(),
                low=0,
                trimmed_bytes=0,
                lock=self._lock.identity,
                next_number=1,
            )
            inherited = _Inherited(manifest, StoredSegment(0, 0, 0, 0, FRAMES_AT), 0, 0)
        old, sealed = inherited.manifest, inherited.sealed
        epochs = old.epochs
        if number > 0:
            epochs = (*epochs, StoredEpoch(number, place.clock.new_id(), inherited.next))
        kept = old.segments[:-1] if sealed.end == sealed.base else (*old.segments[:-1], sealed)
        assert sealed.end is not None
        manifest = msgspec.structs.replace(
            old,
            generation=old.generation + 1,
            epochs=epochs,
            segments=(*kept, StoredSegment(number, 1, sealed.end)),
            lock=self._lock.identity,
            next_number=2,
        )
        identity = place.identity(manifest, manifest.active)
        segment, position, crc = self._make_segment(manifest, identity, inherited.copied)
        end = End(
            *(manifest.generation, self._io.boot_id(), number, 1, position, inherited.next),
            *(inherited.last_us, manifest.low, crc, self._pid, inherited.copied_bytes),
        )
        durable = Durable(False, 1, position, end.next, crc, end.last_us, end.size_bytes)
        seed = place.tail_seed(number)
        self._io.pwrite(tail.fd, pack_end(seed, end), 0)
        self._io.pwrite(tail.fd, pack_durable(seed, durable), DURABLE_AT)
        path = place.path(manifest_name(number))
        unique, check = str(place.clock.new_id()), self._lock.check
        store_manifest(self._io, path, manifest, unique, check, reserve=place.reserve)
        return OwnedEpoch(
            *(manifest, tail, segment, identity.seed, end, durable),
            torn_bytes=inherited.torn_bytes,
            is_damaged=inherited.is_damaged,
        )

    def _make_segment(
        self, manifest: Manifest, identity: SegmentIdentity, copied: Sequence[Frame]
    ) -> tuple[OpenFile, int, int]:
        chunks, crc = [identity.header(manifest.active.base)], 0
        for frame in copied:
            about = (frame.kind, frame.flags, frame.base, frame.records, frame.timestamp_us)
            chunk, crc = encode_frame(identity.seed, crc, (*about, LAG_UNKNOWN), frame.body)
            chunks.append(chunk)
        content = b"".join(chunks)
        path = self._place.segment_path(manifest.active)
        file = make_segment(self._io, path, content, self._place.reserve)
        return file, len(content), crc

    def _tidy(self, manifest: Manifest, old: Manifest | None) -> None:
        """Remove files of earlier epochs that are no longer needed."""
        number = manifest.epoch.number
        names = self._io.list(self._place.directory)
        gone = [manifest_name(each) for each in epochs_in(names, MANIFEST) if each < number]
        gone += [tail_name(each) for each in epochs_in(names, TAIL) if each < number]
        gone += [name for name in names if name.endswith(".tmp")]
        paths = [self._place.path(name) for name in gone]
        if old is not None and old.active.name not in {each.name for each in manifest.segments}:
            paths.append(self._place.segment_path(old.active))
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._io.unlink(path)


def make_segment(io: Io, path: str, content: bytes, reserve: DiskReserve | None = None) -> OpenFile:
    """Return a new segment file that begins with `content`; it and its name are durable."""
    make = partial(_make_segment, io, path, content)
    return make() if reserve is None else reserve.spend(make)


def _make_segment(io: Io, path: str, content: bytes) -> OpenFile:
    file = OpenFile(io, path, "create")
    try:
        io.truncate(file.fd, 0)
        io.preallocate(file.fd, max(RESERVE_MIN_BYTES, len(content)))
        io.pwrite(file.fd, content, 0)
        io.sync(file.fd)
        # Before a manifest names it: the manifest may reach the disk before this file's name.
        io.sync_directory(os.path.dirname(path))
    except BaseException:
        file.close()
        # With space of the reserve it is repeated, and a failed sync must not be: its name neither.
        with contextlib.suppress(OSError):
            io.unlink(path)
        raise
    return file


def report_losses(owned: OwnedEpoch, directory: str) -> None:
    """Log what the previous writer left torn or damaged."""
    end = owned.end.next
    if owned.torn_bytes:
        torn = owned.torn_bytes
        _logger.warning("cut %d bytes of a torn write at offset %d in %s", torn, end, directory)
    if owned.is_damaged:
        _logger.error("records before offset %d in %s are damaged", end, directory)


def rolled(files: PartitionFiles, manifest: Manifest, head: Head) -> Manifest:
    """Return a manifest whose last segment ends at the head, followed by a new one."""
    sealed = msgspec.structs.replace(
        manifest.active,
        end=head.next,
        position=head.position,
        first_us=files.first_timestamp(manifest, manifest.active, head.position),
        last_us=head.last_us,
        size_bytes=head.size_bytes,
    )
    fresh = StoredSegment(manifest.epoch.number, manifest.next_number, head.next)
    return msgspec.structs.replace(
        manifest,
        segments=(*manifest.segments[:-1], sealed, fresh),
        generation=manifest.generation + 1,
        next_number=manifest.next_number + 1,
    )
