"""Makes a partition durable, from any process, and stores the durable mark."""

import contextlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from strandline.io import SystemIo
from strandline.locks import Attempt
from strandline.stores.files.manifest import Manifest
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.segment import FRAMES_AT, SegmentFile
from strandline.stores.files.tail import (
    DURABLE_AT,
    TAIL_BYTES,
    Durable,
    End,
    durable_at,
    is_fenced,
    pack_durable,
    pack_end,
    read_tail,
    unpack_durable,
    unpack_end,
)
from strandline.stores.open_file import OpenFile
from strandline.values import ClosedError, FailedError, UnavailableError

if TYPE_CHECKING:
    from strandline._core.core import GroupCommit

_TRIES = 3
#: The part of a packed end that stays equal as long as only frames are written.
_SAME = slice(4, 32)


@contextlib.contextmanager
def failing(files: PartitionFiles) -> Iterator[None]:
    """Replace the OSError of a failed sync with FailedError."""
    try:
        yield
    except OSError as error:
        if files.has_failed_sync:
            raise FailedError(error) from error
        raise


class MarkListener(Protocol):
    """Notifies waiters of how far a partition is written, or durable."""

    #: Empty while no reader watches.
    partitions: Collection[object]

    def __call__(self, files: PartitionFiles, end: int, *, durable_only: bool) -> None: ...


class UnsettledError(UnavailableError):
    """A process crashed during a take-over of the partition: the next writer finishes it."""


class LastSync(NamedTuple):
    """The place of the last sync."""

    manifest: Manifest
    segment: SegmentFile
    tail: OpenFile
    seed: int


class Syncing:
    """One thread at a time syncs; the thread that drains may roll at the same time."""

    def __init__(
        self,
        files: PartitionFiles,
        notify: MarkListener | None,
        commit: "GroupCommit | None" = None,
    ) -> None:
        self._files = files
        self._io = files.place.io
        #: None for a reader, which does not write marks.
        self._notify = notify
        self._last: LastSync | None = None
        #: The core's replacement for repeated syncs of the same segment.
        self._commit = commit

    def sync(self) -> None:
        """Return once everything that any process has written so far is durable."""
        for _ in range(_TRIES):
            if self._sync_again():
                return
            state = self._files.look()
            if state is None:
                return
            manifest = state.manifest
            end = state.marks.high
            if state.marks.durable == end:
                self._follow(manifest)
                return
            durable = Durable(
                *(False, manifest.active.number, state.position, end, state.crc),
                *(state.last_us, state.active_bytes),
            )
            if self._sync(self._files.segment(manifest, manifest.active), manifest, durable):
                self.note_durable(end)
                with contextlib.suppress(OSError):
                    self._arm()
                return
        raise UnsettledError("a take-over was interrupted, open the log for writing to finish it")

    def check_tail(self) -> None:
        """Raise OSError if a first sync could not open the tail to store its mark."""
        state = None if self._last is not None else self._files.look()
        if state is not None and state.marks.durable < state.marks.high:
            with contextlib.suppress(FileNotFoundError):
                OpenFile(self._io, self._files.place.path(state.manifest.tail), "write").close()

    def close(self) -> None:
        """Release the files of the last sync: what is waited for from now on is synced by none.

        A thread that is in the midst of a sync keeps them for as long as this object is there.
        """
        commit = self._commit
        if commit is None:
            self._last = None
        elif Attempt(commit, 0.0):
            try:
                commit.disarm()
                self._last = None
            finally:
                commit.release()

    def _follow(self, manifest: Manifest) -> None:
        """Release the segment of the last sync if it was removed since."""
        last = self._last
        if last is not None and last.manifest.active not in manifest.segments:
            self._synced(self._files.segment(manifest, manifest.active), manifest)
            with contextlib.suppress(OSError):
                self._arm()

    def _sync_again(self) -> bool:
        """Sync the segment of the last sync, if only frames were written since."""
        last = self._last
        if last is not None and self._commit is not None:
            return self._sync_by_core(self._commit, last)
        if last is None or not last.tail.is_in_place():
            return False
        manifest = last.manifest
        raw = self._io.pread(last.tail.fd, TAIL_BYTES, 0)
        end = unpack_end(last.seed, raw)
        if end is None or is_fenced(raw) or not self._is_of(end, manifest):
            return False
        if self._files.known_durable >= end.next:
            return True
        if not self._sync(last.segment, manifest, durable_at(end)):
            return False
        self.note_durable(end.next)
        return True

    def _is_of(self, end: End, manifest: Manifest) -> bool:
        return end.generation == manifest.generation and end.boot == self._io.boot_id()

    def _arm(self) -> None:
        """Have the core do further syncs of the same segment."""
        last = self._last
        if self._commit is None or last is None:
            return
        manifest, segment, tail, seed = last
        active = manifest.active
        about = (manifest.generation, self._io.boot_id(), manifest.epoch.number, active.number)
        end = End(*about, *(0, 0, 0, 0, 0, 0, 0))
        self._commit.arm(
            (segment, tail),
            None if type(self._io) is SystemIo else self._io,
            *(segment.fd, tail.fd, tail.path, *tail.inode, seed),
            pack_end(seed, end)[_SAME],
            self._files.known_durable,
        )

    def _sync_by_core(self, commit: "GroupCommit", last: LastSync) -> bool:
        """Do what `_sync_again` does, in the core."""
        self._check_not_failed()
        try:
            end = commit.sync()
        except OSError:
            if commit.has_failed:
                self._files.has_failed_sync = True
                lost = Durable(True, last.manifest.active.number, *(0, 0, 0, 0, 0))
                self._note(last.segment, last.manifest, lost, is_failed=True)
            raise
        if end is None:
            return False
        self.note_durable(end)
        return True

    def sync_to(self, manifest: Manifest, end: End) -> None:
        """Make the last segment durable up to `end`; for the holder of the lock."""
        segment = self._files.segment(manifest, manifest.active)
        if not self._sync(segment, manifest, durable_at(end)):
            raise UnavailableError("another process has taken the partition over, try again")
        self.note_durable(end.next)

    def _sync(self, segment: SegmentFile, manifest: Manifest, durable: Durable) -> bool:
        """Sync; False if the epoch ended meanwhile, and it is unknown what the sync covered."""
        self._check_not_failed()
        try:
            self._io.sync(segment.fd)
        except OSError:
            self._files.has_failed_sync = True
            self._note(segment, manifest, durable, is_failed=True)
            raise
        return self._note(segment, manifest, durable, is_failed=False)

    def _check_not_failed(self) -> None:
        if self._files.has_failed_sync:
            raise ClosedError("a sync has failed here before, open the log again")

    def note_durable(self, end: int) -> None:
        """Record that everything before `end` is durable, and notify waiters."""
        self._files.note_durable(end)
        if self._notify is not None and self._notify.partitions:
            self._notify(self._files, end, durable_only=True)

    def _note(
        self, segment: SegmentFile, manifest: Manifest, durable: Durable, *, is_failed: bool
    ) -> bool:
        """Write the durable mark into the tail, or that it is unknown.

        False if another process has begun a new epoch.
        """
        synced = self._synced(segment, manifest)
        if synced is None:
            newest = self._files.place.load_manifest()
            return newest is not None and newest.epoch == manifest.epoch
        tail, seed = synced.tail, synced.seed
        # Another process may be writing its own mark; then ours is written with the next sync.
        is_locked = self._notify is not None and self._io.try_lock(tail.fd)
        try:
            raw = self._io.pread(tail.fd, TAIL_BYTES, 0)
            known = unpack_durable(seed, raw)
            if known is not None and known.is_failed:
                self._files.has_failed_sync = True
                raise ClosedError("a sync has failed here before, open the log again")
            if is_failed and self._notify is not None:
                mark = last_certain(known, durable.segment, manifest)
                self._io.pwrite(tail.fd, pack_durable(seed, mark), DURABLE_AT)
            elif is_locked and (known is None or known.next < durable.next):
                self._io.pwrite(tail.fd, pack_durable(seed, durable), DURABLE_AT)
            return not is_fenced(raw) or not self._may_still_write(tail, seed, raw)
        finally:
            if is_locked:
                self._io.unlock(tail.fd)

    def _may_still_write(self, tail: OpenFile, seed: int, raw: bytes) -> bool:
        """Whether the writer of this tail may still write."""
        # Read again if the read overlapped with a write.
        end = unpack_end(seed, raw) or read_tail(self._io, tail.fd, seed).end
        return end is not None and end.boot == self._io.boot_id()

    def _synced(self, segment: SegmentFile, manifest: Manifest) -> LastSync | None:
        """Return the place of the sync; None if the tail of its epoch is gone."""
        last = self._last
        if last is not None and last.manifest is manifest and last.segment is segment:
            return last
        place = self._files.place
        path = place.path(manifest.tail)
        if last is not None and last.tail.path == path and last.tail.is_in_place():
            tail = last.tail
        else:
            try:
                tail = OpenFile(self._io, path, "read" if self._notify is None else "write")
            except FileNotFoundError:
                return None
        seed = place.tail_seed(manifest.epoch.number)
        self._last = synced = LastSync(manifest, segment, tail, seed)
        return synced


def last_certain(known: Durable | None, segment: int, manifest: Manifest) -> Durable:
    """Return what was certainly durable before a sync failed, marked as failed."""
    if known is not None and known.segment == segment:
        return known._replace(is_failed=True)
    last_us = 0 if known is None else known.last_us
    return Durable(True, segment, FRAMES_AT, manifest.active.base, 0, last_us, 0)
