"""Making a partition durable, from any process, and remembering how far it is."""

from typing import Protocol

from strandline.log.files.manifest import Manifest
from strandline.log.files.open_file import OpenFile
from strandline.log.files.partition import PartitionFiles
from strandline.log.files.segment import FRAMES_AT, SegmentFile
from strandline.log.files.tail import (
    DURABLE_AT,
    TAIL_BYTES,
    Durable,
    End,
    pack_durable,
    read_tail,
    unpack,
)
from strandline.values import ClosedError, UnavailableError

_TRIES = 20


class Telling(Protocol):
    """Passes on how far a partition is written, or durable."""

    def __call__(self, files: PartitionFiles, end: int, *, durable_only: bool) -> None: ...


class Syncing:
    """One thread at a time syncs; the thread that drains may roll at the same time."""

    def __init__(self, files: PartitionFiles, tell: Telling | None) -> None:
        self._files = files
        self._io = files.place.io
        #: None for a reader, who leaves no mark behind.
        self._tell = tell
        #: Where the last sync was.
        self._manifest: Manifest | None = None
        self._segment: SegmentFile | None = None
        self._tail: OpenFile | None = None

    def sync(self) -> None:
        """Return once everything that any process has written so far is durable."""
        for _ in range(_TRIES):
            if self._sync_again():
                return
            state = self._files.look()
            if state is None or state.marks.durable == state.marks.high:
                return
            manifest = state.manifest
            end = state.marks.high
            durable = Durable(
                *(False, manifest.active.number, state.position, end, state.crc),
                *(state.last_us, state.active_bytes),
            )
            if self._sync(self._files.segment(manifest, manifest.active), manifest, durable):
                self._know(end)
                return
        raise ClosedError("the partition changes hands all the time, try again")

    def _sync_again(self) -> bool:
        """Sync where the last sync was, if nothing but frames has been written since."""
        manifest, segment, tail = self._manifest, self._segment, self._tail
        if manifest is None or segment is None or tail is None or not tail.is_in_place():
            return False
        seed = self._files.place.tail_seed(manifest.epoch.number)
        end, known, fence = unpack(seed, self._io.pread(tail.fd, TAIL_BYTES, 0))
        if end is None or fence is not None or end.generation != manifest.generation:
            return False
        if known is None or end.boot != self._io.boot_id():
            return False
        if known.next >= end.next and not known.is_failed:
            return True
        if not self._sync(segment, manifest, durable_at(end)):
            return False
        self._know(end.next)
        return True

    def sync_to(self, manifest: Manifest, end: End) -> None:
        """Make the last segment durable up to `end`; for whoever holds the lock."""
        segment = self._files.segment(manifest, manifest.active)
        if not self._sync(segment, manifest, durable_at(end)):
            raise UnavailableError("another process has taken the partition over, try again")
        self._know(end.next)

    def _sync(self, segment: SegmentFile, manifest: Manifest, durable: Durable) -> bool:
        """Sync; False if the epoch ended meanwhile, and nobody knows what was covered."""
        self._manifest, self._segment = manifest, segment
        if self._files.has_failed_sync:
            raise ClosedError("a sync has failed here before, open the log anew")
        try:
            self._io.sync(segment.fd)
        except OSError:
            self._files.has_failed_sync = True
            self._note(manifest, durable, is_failed=True)
            raise
        return self._note(manifest, durable, is_failed=False)

    def _know(self, end: int) -> None:
        self._files.note_durable(end)
        if self._tell is not None:
            self._tell(self._files, end, durable_only=True)

    def _note(self, manifest: Manifest, durable: Durable, *, is_failed: bool) -> bool:
        """Write into the tail how far it is durable, or that nobody can know any more.

        False if somebody has begun another epoch.
        """
        tail = self._open_tail(manifest)
        if tail is None:
            return False
        # Another process may be writing its own mark; ours then follows with the next sync.
        is_locked = self._tell is not None and self._io.try_lock(tail.fd)
        try:
            seed = self._files.place.tail_seed(manifest.epoch.number)
            told = read_tail(self._io, tail.fd, seed)
            known = told.durable
            if known is not None and known.is_failed:
                self._files.has_failed_sync = True
                raise ClosedError("a sync has failed here before, open the log anew")
            if is_failed and self._tell is not None:
                mark = last_certain(known, durable.segment, manifest)
                self._io.pwrite(tail.fd, pack_durable(seed, mark), DURABLE_AT)
            elif is_locked and (known is None or known.next < durable.next):
                self._io.pwrite(tail.fd, pack_durable(seed, durable), DURABLE_AT)
            return told.fence is None
        finally:
            if is_locked:
                self._io.unlock(tail.fd)

    def _open_tail(self, manifest: Manifest) -> OpenFile | None:
        """Return the tail of the epoch that was synced; None if it is gone."""
        path = self._files.place.path(manifest.tail)
        if self._tail is None or self._tail.path != path:
            try:
                self._tail = OpenFile(self._io, path, "read" if self._tell is None else "write")
            except FileNotFoundError:
                return None
        return self._tail


def durable_at(end: End) -> Durable:
    """Return what is durable once everything up to `end` is."""
    return Durable(
        *(False, end.segment, end.position, end.next, end.crc, end.last_us, end.size_bytes)
    )


def last_certain(known: Durable | None, segment: int, manifest: Manifest) -> Durable:
    """Return what was durable for certain before a sync failed, marked as such."""
    if known is not None and known.segment == segment:
        return known._replace(is_failed=True)
    last_us = 0 if known is None else known.last_us
    return Durable(True, segment, FRAMES_AT, manifest.active.base, 0, last_us, 0)
