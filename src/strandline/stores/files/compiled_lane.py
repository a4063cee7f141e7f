"""Uses the compiled core for the write side of a partition. See design 0086."""

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline._core import IS_COMPILED
from strandline.clock import SystemClock
from strandline.io import SystemIo
from strandline.locks import Attempt
from strandline.stores.files.appends import Frozen, Head
from strandline.stores.files.following import keep
from strandline.stores.files.manifest import StoredSegment
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_lock import PartitionLock
from strandline.stores.files.reserved_space import ahead_bytes
from strandline.stores.files.succession import OwnedEpoch
from strandline.stores.files.tail import DURABLE_AT, FENCE_AT
from strandline.stores.files.writing_settings import WritingSettings
from strandline.values import ValueKind

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import Appender, GroupCommit, Lane, route, size_of
else:
    Appender = route = size_of = None

__all__ = ["Appender", "CompiledLane", "TailState", "compiled_lane", "route", "size_of"]


class TailState(NamedTuple):
    """What a writer knows of the tail, and of the reserved space after the end."""

    end_raw: bytes
    durable_raw: bytes
    reserved: int


class CompiledLane:
    """Hands the head of a partition to the core, and takes it back from there."""

    def __init__(
        self, lane: "Lane", lock: PartitionLock, mutex: threading.Lock, *, is_seam: bool
    ) -> None:
        self.lane = lane
        #: Rounds of syncing that threads share.
        self.commit: Final = GroupCommit()
        self.is_seam = is_seam
        self._mutex = mutex
        self._attempt = Attempt(mutex)
        #: See core.Lane. With a seam each call holds the mutex, because the seam runs Python code.
        self.append: Callable[[Any, int], Any] = lane.append
        self.append_many: Callable[[Any, int], Any] = lane.append_many
        if is_seam:
            self.append = partial(self._alone, lane.append)
            self.append_many = partial(self._alone, lane.append_many)
        self._lock = lock
        #: Files that the lane keeps open; replaced for other files, emptied by `close_files`.
        self._files: list[object] = []
        self._active: StoredSegment

    def _alone(self, append: Callable[[Any, int], Any], values: Any, bytes_max: int) -> Any:
        if not self._attempt:
            return NotImplemented
        try:
            return append(values, bytes_max)
        finally:
            self._mutex.release()

    def arm(
        self, owned: OwnedEpoch, head: Head, tail_seed: int, state: TailState, check_at: float
    ) -> None:
        """Hand the head to the core."""
        handles = self._lock.handles()
        if handles is None:
            return
        lock, holder = handles
        files: list[object] = [owned.segment, owned.tail, lock, holder]
        if files != self._files:
            self._files = files
        self._active = owned.manifest.active
        self.lane.arm(
            self._files,
            owned.segment.fd,
            owned.tail.fd,
            lock.fd,
            -1 if holder is None else holder.fd,
            lock.path,
            *lock.inode,
            *(head.seed, tail_seed, head.next, head.position, head.last_us, head.size_bytes),
            head.crc,
            head.durable,
            state.reserved,
            check_at,
            state.end_raw,
            state.durable_raw,
        )

    def close_files(self) -> None:
        """Release all files. The lane is closed, and no sync is running."""
        self._files.clear()

    def keep_last(self, files: PartitionFiles) -> None:
        """Cache what was just written, so that readers of this process need not read it."""
        last = self.lane.last_frame()
        if last is not None:
            position, base, stop, crc, content = last
            end = position + len(content)
            keep(files, self._active, (base, position), Frozen([content], stop, end, 0, crc, 0))

    def take_back(self, head: Head) -> tuple[TailState, bool] | None:
        """Update the head from the core; None if the core did not have it.

        Returns the core's knowledge of the tail, and whether other processes have written.
        Call `lane.settle` once all of it is processed.
        """
        taken = self.lane.disarm()
        if taken is None:
            return None
        head.next, head.position, head.last_us, head.size_bytes, head.crc = taken[:5]
        head.durable, reserved, end_raw, durable_raw, others_wrote = taken[5:]
        durable_raw += bytes(FENCE_AT - DURABLE_AT - len(durable_raw))
        return TailState(end_raw, durable_raw, reserved), others_wrote


def compiled_lane(
    files: PartitionFiles,
    settings: WritingSettings,
    lock: PartitionLock,
    mutex: threading.Lock,
    fenced: Callable[[], Exception],
) -> CompiledLane | None:
    """Return the core's lane; None if the core cannot write this partition."""
    place = files.place
    is_plain = place.kind is ValueKind.EVENT and not place.is_proved and not settings.compression
    if not IS_COMPILED or not is_plain:
        return None
    io = None if type(place.io) is SystemIo else place.io
    clock = None if type(place.clock) is SystemClock else place.clock
    lane = Lane(
        *(io, clock, fenced, lock.close_file),
        *(settings.segment_bytes, ahead_bytes(place, settings.segment_bytes)),
        *(settings.is_exclusive, settings.maps_tails),
    )
    if files.tail_watch is not None:
        lane.announce_to(files.tail_watch)
    return CompiledLane(lane, lock, mutex, is_seam=io is not None or clock is not None)
