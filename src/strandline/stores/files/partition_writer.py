"""The write side of one partition: its lock, its tail, its last segment."""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from strandline.locks import Attempt, holding
from strandline.log.identities import Identities
from strandline.log.store import dropped
from strandline.stores.disk_reserve import is_full
from strandline.stores.file_errors import unavailable
from strandline.stores.files.adoption import adopt_epoch
from strandline.stores.files.appends import AppendDelta, Frozen, Head, RefusingDelta
from strandline.stores.files.compiled_lane import CompiledLane, TailState, compiled_lane
from strandline.stores.files.fencing import FencedError
from strandline.stores.files.following import keep
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.manifest import Manifest, manifest_name, store_manifest
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_lock import PartitionLock
from strandline.stores.files.proving import value_at, value_found
from strandline.stores.files.reserved_space import ReservedSpace
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.succession import (
    OwnedEpoch,
    begin_epoch,
    make_segment,
    report_losses,
    rolled,
)
from strandline.stores.files.syncing import MarkListener, Syncing, UnsettledError, failing
from strandline.stores.files.tail import (
    DURABLE_AT,
    END_BYTES,
    FENCE_AT,
    NO_FENCE,
    TAIL_BYTES,
    WANTED_AT,
    End,
    is_fenced,
    pack_end,
    unpack_durable,
    unpack_end,
)
from strandline.stores.files.writing_settings import WritingSettings
from strandline.stores.open_file import OpenFile
from strandline.values import (
    CorruptError,
    DivergedError,
    InvalidError,
    UnavailableError,
)

#: How long an owner writes before it checks again that its files were not replaced.
_OWN_CHECK_S = 0.01

#: An empty fence slot, and the bytes between it and the next slot.
_NOT_FENCED = bytes(WANTED_AT - FENCE_AT)
#: The holder that stands for the draining thread.
_DRAIN = object()
# Calling a named tuple's class is slow, and each append makes one.
_new: Any = tuple.__new__


class PartitionWriter:
    """Implements Bracket and Flusher for one partition.

    The draining thread holds the partition's lock and owns everything here except `sync`,
    which one other thread may call at the same time.
    """

    def __init__(
        self, files: PartitionFiles, settings: WritingSettings, notify: MarkListener
    ) -> None:
        self.files = files
        self.place: Final = files.place
        self._io = files.place.io
        self._boot = self._io.boot_id()
        self._settings = settings
        self._segment_bytes = settings.segment_bytes
        self._space = ReservedSpace(files.place, settings.segment_bytes)
        self._monotonic = files.place.clock.monotonic
        #: Until when the owner of a partition need not check; a shared one is never owned.
        self._check_at = 0.0
        self._notify = notify
        self._lock = PartitionLock(files.place)
        #: Held together with the partition's lock, which does not exclude threads of this process.
        self._mutex = threading.Lock()
        self._attempt = Attempt(self._mutex)
        #: The current holder, so that it is not released for another one.
        self._holder: object | None = None
        #: Whether the holding thread may wait for the disk or another process.
        self._may_wait = True
        self._owned: OwnedEpoch | None = None
        #: Whether a newer writer has taken over a partition that was ours alone, which is final.
        self._is_fenced = False
        #: Whether the files may differ from the cached state: the next drain reads them.
        self._is_stale = False
        self._end: End
        self._seed = 0
        #: The tail's bytes while no other process writes: its first slot, and the other slots.
        self._end_raw = b""
        self._others_raw = b""
        self._window = IdentityWindow(files)
        self._head = Head(
            files.place.clock, files.place.kind, settings.compression, self._identities
        )
        self.head: Final = self._head
        if files.place.is_proved:
            self._head.chain = files.place.chain
        self._delta = self._head.delta = AppendDelta(self._head)
        self._pid = os.getpid()
        #: The core's lane: appends plain events between a `leave` and the next `enter`.
        self.compiled: Final = compiled_lane(files, settings, self._lock, self._mutex, self._fenced)
        self.syncing: Final = Syncing(
            files, notify, self.compiled.commit if self.compiled else None
        )
        #: Whether writes are queued, which no append may overtake.
        self.has_queued: Callable[[], bool] = lambda: True

    # --- the bracket ---

    def enter(self, timeout_s: float, *, may_wait: bool = True, holder: object = _DRAIN) -> Head:
        head = self._head
        if not self._attempt and not Attempt(self._mutex, timeout_s):
            raise UnavailableError("another thread changes the partition, try again")
        self._holder = holder
        self._may_wait = may_wait
        try:
            if self.compiled is not None:
                self._take_back(self.compiled)
            if self._check_at > self._monotonic() and head.position < self._segment_bytes:
                # Owned, and checked a moment ago. `flush` detects a take-over.
                return head
            head.refusal, head.delta = None, self._delta
            self._prepare(timeout_s)
        except (InvalidError, CorruptError) as error:
            head.refusal, head.delta = error, RefusingDelta(error)
        except OSError as error:
            self.leave(holder)
            if self.files.has_failed_sync:
                raise
            raise unavailable(error, self.place.directory) from error
        except BaseException:
            self.leave(holder)
            raise
        return head

    def _prepare(self, timeout_s: float) -> None:
        """Take the lock, read the end, and reserve space."""
        if self._is_fenced:
            raise self._fenced()
        is_owner = self._lock.is_held
        if not is_owner and not self._lock.attempt():
            self._wait_lock(timeout_s)
        if not self._is_current(is_owner=is_owner):
            if is_owner and self._owned is not None:
                raise self._fenced()
            self._catch_up()
        if self._head.position >= self._segment_bytes and self._holder is _DRAIN:
            self._check_may_wait()
            self.roll()
        if self._settings.is_exclusive:
            self._lock.keep_until_closed()
            self._check_at = self._monotonic() + _OWN_CHECK_S

    def _fenced(self) -> FencedError:
        # A writer that shares a partition continues in the new epoch.
        self._is_fenced = self._settings.is_exclusive
        return FencedError(self.place)

    def leave(self, holder: object = _DRAIN) -> None:
        if self._holder is not holder:
            return
        try:
            if self._is_stale:
                self._owned = None
                self._window.invalidate()
                self._is_stale = False
            if self._owned is None or not self._settings.is_exclusive:
                self._check_at = 0.0
                try:
                    self._lock.release()
                except BaseException:
                    self._lock.release()
                    raise
            if self.compiled is not None and self._owned is not None:
                self._hand_over(self.compiled, self._owned)
        finally:
            self._holder = None
            self._mutex.release()

    def _hand_over(self, compiled: CompiledLane, owned: OwnedEpoch) -> None:
        """Let the core append, if nothing prevents it."""
        if self._head.refusal or self.files.has_failed_sync:
            return
        durable_raw = self._others_raw[: FENCE_AT - DURABLE_AT]
        state = TailState(self._end_raw, durable_raw, self._space.end)
        compiled.arm(owned, self._head, self._seed, state, self._check_at)
        # Checked afterwards: a write queued from now on calls `hold` itself.
        if self.has_queued():
            compiled.lane.hold()

    def _take_back(self, compiled: CompiledLane) -> None:
        """Stop the core from appending, and continue from its end."""
        taken = compiled.take_back(self._head)
        if taken is None:
            return
        first = self._end.next
        (self._end_raw, durable_raw, self._space.end), others_wrote = taken
        self._others_raw = durable_raw + _NOT_FENCED
        end = unpack_end(self._seed, self._end_raw)
        if compiled.lane.is_broken or end is None:
            self._owned = None
            self._window.invalidate()
        else:
            self._end = end
            if self._window.is_used and not others_wrote:
                # The core appends plain events, which have no identities.
                self._window.wrote(first, end.next)
        compiled.lane.settle()

    def abandon(self, compiled: CompiledLane) -> None:
        """After a failed append, have the next drain read the files again."""
        holder = object()
        if Attempt(self._mutex, self._settings.lock_timeout_s):
            self._holder = holder
            try:
                self._take_back(compiled)
            finally:
                self.leave(holder)

    @holding
    def held(self) -> Iterator[Manifest]:
        """Hold the partition as a drain does, for other changes."""
        holder = object()
        try:
            head = self.enter(self._settings.lock_timeout_s, holder=holder)
            if head.refusal is not None:
                raise head.refusal
            yield self.manifest
        finally:
            try:
                self.leave(holder)
            except BaseException:
                self.leave(holder)
                raise

    @property
    def manifest(self) -> Manifest:
        """The manifest, for the holder of the partition."""
        assert self._owned is not None
        return self._owned.manifest

    def _wait_lock(self, timeout_s: float) -> None:
        if not self._settings.takes_over:
            self._lock.check_may_come_free()
        try:
            self._lock.wait(timeout_s, self._owned and self._owned.tail)
        except UnavailableError:
            if not self._settings.takes_over or not self._may_wait:
                raise
            self._lock.replace(str(self.place.clock.new_id()))

    def _is_current(self, *, is_owner: bool) -> bool:
        """Whether no other process has written since we did, or nothing but frames."""
        owned = self._owned
        if owned is None:
            return False
        raw = self._io.pread(owned.tail.fd, TAIL_BYTES, 0)
        # Otherwise the lock was taken just now, with that check.
        if is_owner and not self._lock.is_in_place():
            return False
        if self._lock.identity != owned.manifest.lock:
            # The file was replaced: a process that has the old one open may still be writing.
            return False
        if raw[DURABLE_AT:WANTED_AT] != self._others_raw and not self._take_durable(raw):
            return False
        return raw[:END_BYTES] == self._end_raw or self._take_over(owned, raw)

    def _take_durable(self, raw: bytes) -> bool:
        """Read the durable mark from the tail; False if a sync has failed, or it is fenced."""
        durable = unpack_durable(self._seed, raw)
        if durable is None or durable.is_failed or is_fenced(raw):
            return False
        self._others_raw = raw[DURABLE_AT:WANTED_AT]
        self._head.durable = durable.next
        return True

    def _take_over(self, owned: OwnedEpoch, raw: bytes) -> bool:
        """Continue at another process's end in the same segment; False if that is not possible."""
        end = unpack_end(self._seed, raw)
        if (
            end is None
            or end.generation != owned.manifest.generation
            or end.segment != owned.manifest.active.number
            # An older copy: within one segment the end only rises.
            or end.next < self._end.next
        ):
            return False
        if end.pid != self._pid:
            self._lock.name_holder()
        if self._head.chain is not None:
            self._head.value = value_at(
                self.files, owned.manifest, end, (self._end, self._head.next, self._head.value)
            )
        self._set(end, raw)
        return True

    def _set(self, end: End, raw: bytes) -> None:
        head = self._head
        head.next, head.position, head.crc = end.next, end.position, end.crc
        head.last_us, head.size_bytes = end.last_us, end.size_bytes
        self._end, self._end_raw = end, raw[:END_BYTES]

    # --- catching up with others ---

    def _catch_up(self) -> None:
        self._owned = None
        self.files.close_files()
        self._lock.name_holder()
        adopted = adopt_epoch(self.files, self._lock.identity, self._boot)
        if adopted is None:
            self._check_may_wait()
            adopted = begin_epoch(self.files, self._lock, self._pid)
            self._check_not_dropped()
            report_losses(adopted, self.place.directory)
        self._hold(adopted)

    def _check_not_dropped(self) -> None:
        # Dropping a topic first marks it, and then fences the existing tails.
        if self.place.is_dropped():
            raise dropped(self.place.topic)

    def _check_may_wait(self) -> None:
        if not self._may_wait:
            raise UnavailableError("this has to wait for the disk, and an event loop must not")

    def _hold(self, owned: OwnedEpoch) -> None:
        if self._head.chain is not None:
            self._head.value = value_found(self.files, owned.manifest, owned.end)
        self._head.seed = owned.seed
        self._seed = self.place.tail_seed(owned.manifest.epoch.number)
        self._space.begin(owned.segment.fd)
        self._owned = owned
        end = pack_end(self._seed, owned.end)
        if self._io.pread(owned.tail.fd, END_BYTES, 0) != end:
            # Left by a crash before the tail was written.
            self._io.pwrite(owned.tail.fd, end, 0)
        raw = self._io.pread(owned.tail.fd, TAIL_BYTES, 0)
        self._set(owned.end, raw)
        self._head.durable = owned.durable.next
        # Not the fence slot as it is by now: the next drain has to see a fence.
        self._others_raw = raw[DURABLE_AT:FENCE_AT] + _NOT_FENCED

    def _identities(self, now_us: int) -> Identities:
        """Return the identities recognised at a time; called under the lock."""
        try:
            if not self.manifest.has_identities:
                # From here on: records before this have no identities.
                self._window.begin(self.manifest, self._end.next)
                self.change(has_identities=True)
            if self._window.load() and self._may_wait:
                # Now, before the window contains writes that are not stored yet.
                self.keep_identities()
            identities = self._window.up_to_date()
        except OSError as error:
            raise unavailable(error, self.place.directory) from error
        except DivergedError as error:
            raise UnavailableError("the log was replaced meanwhile, try again") from error
        identities.expire(now_us)
        return identities

    # --- the flusher ---

    def flush(self, frozen: Frozen, epochs: range) -> None:  # noqa: ARG002 - Offsets suffice.
        owned, io = self._owned, self._io
        assert owned is not None
        chunks = frozen.chunks
        start = self._end.position
        _, boot, epoch, segment, _, first, _, low, _, _, _ = self._end
        number, size_bytes = owned.manifest.generation, frozen.size_bytes
        about = (frozen.position, frozen.next, frozen.last_us, low, frozen.crc, self._pid)
        # Until all is written, the head and the identities are ahead of the files.
        self._is_stale = True
        try:
            if frozen.position > self._space.end:
                self._space.have(owned.segment.fd, frozen.position, frozen.position - start)
            if len(chunks) == 1:
                io.pwrite(owned.segment.fd, chunks[0], start)
            else:
                io.pwritev(owned.segment.fd, chunks, start)
            self._end = end = _new(End, (number, boot, epoch, segment, *about, size_bytes))
            self._end_raw = raw = pack_end(self._seed, end)
            io.pwrite(owned.tail.fd, raw, 0)
        except OSError as error:
            if not is_full(error):
                raise
            self._space.clear(owned.segment.fd, start)
            del owned  # The error keeps this frame, and its handler may trim this segment.
            raise unavailable(error, self.place.directory) from error
        if io.pread(owned.tail.fd, len(NO_FENCE), FENCE_AT) != NO_FENCE:
            raise self._fenced()
        if self._window.is_used:
            self._window.wrote(first, frozen.next)
        self._is_stale = False
        if self._notify.partitions:
            keep(self.files, owned.manifest.active, (first, start), frozen)
            self._notify(self.files, frozen.next, durable_only=False)
        # The coordinator keeps the last flushed object, and so the memory of its values.
        frozen.chunks.clear()

    def sync(self) -> None:
        try:
            self.syncing.sync()
        except UnsettledError:
            with failing(self.files), self.held():
                self.make_durable()

    # --- rare changes, under the lock ---

    def roll(self) -> None:
        """Seal the last segment, durably, and begin a new one."""
        manifest = self.manifest
        if self._head.next > manifest.active.base:
            self.make_durable()
            self.keep_identities()
            self.begin_segment(rolled(self.files, manifest, self._head))

    def begin_segment(self, manifest: Manifest) -> None:
        """Publish a manifest whose last segment is new, and all before it durable."""
        head, place, (before, fresh) = self._head, self.place, manifest.segments[-2:]
        header = place.identity(manifest, fresh).header(fresh.base)
        segment = make_segment(self._io, place.segment_path(fresh), header, place.reserve)
        end = self._end._replace(segment=fresh.number, position=FRAMES_AT, crc=0, size_bytes=0)
        end = end._replace(next=fresh.base, last_us=before.last_us)
        self._store(manifest, segment=segment, end=end)
        first, head.next, head.durable = head.next, fresh.base, fresh.base
        head.last_us, head.crc, head.position, head.size_bytes = end.last_us, 0, FRAMES_AT, 0
        self._space.begin(segment.fd)
        if first < fresh.base:
            self._window.wrote(first, fresh.base)
            self.syncing.note_durable(fresh.base)
            if self._notify.partitions:
                self._notify(self.files, fresh.base, durable_only=False)

    def change(self, **fields: object) -> None:
        """Replace fields of the manifest."""
        manifest = self.manifest
        generation = manifest.generation + 1
        self._store(msgspec.structs.replace(manifest, generation=generation, **fields))

    def make_durable(self) -> None:
        """Sync what is written, by any process."""
        self.syncing.sync_to(self.manifest, self._end)

    def keep_identities(self) -> None:
        """Store a snapshot of the identities, so that older frames may be removed.

        Sync first: a snapshot of records that may be lost must not replace an older one.
        """
        if self.manifest.has_identities:
            self.make_durable()
            self._window.store(self.manifest)

    def _store(
        self, manifest: Manifest, *, segment: OpenFile | None = None, end: End | None = None
    ) -> None:
        """Publish a manifest of the current epoch, then the matching tail."""
        owned = self._owned
        assert owned is not None
        path = self.place.path(manifest_name(manifest.epoch.number))
        self._is_stale = True
        unique, check = str(self.place.clock.new_id()), self._lock.check
        store_manifest(self._io, path, manifest, unique, check, reserve=self.place.reserve)
        self._end = (end or self._end)._replace(generation=manifest.generation, low=manifest.low)
        self._end_raw = pack_end(self._seed, self._end)
        self._io.pwrite(owned.tail.fd, self._end_raw, 0)
        if self._io.pread(owned.tail.fd, len(NO_FENCE), FENCE_AT) != NO_FENCE:
            if self._settings.is_exclusive:
                raise self._fenced()
            raise UnavailableError("another process has taken the partition over, try again")
        self._owned = owned._replace(manifest=manifest, segment=segment or owned.segment)
        self._is_stale = False

    def close(self) -> None:
        """Release the lock and close every file. The coordinator has stopped."""
        if not Attempt(self._mutex, self._settings.lock_timeout_s):
            raise UnavailableError("a thread still changes the partition, close again later")
        try:
            self._lock.release()
            self._lock.close_file()
            self._owned = None
            if self.compiled is not None:
                self.compiled.close_files()
        finally:
            self._mutex.release()
