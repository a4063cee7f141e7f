"""Making a partition durable, from any process, and remembering how far it is."""

from typing import Protocol

from strandline.log.files.manifest import Manifest
from strandline.log.files.open_file import OpenFile
from strandline.log.files.partition import PartitionFiles
from strandline.log.files.segment import FRAMES_AT
from strandline.log.files.tail import (
    DURABLE_AT,
    Durable,
    End,
    pack_durable,
    read_tail,
)
from strandline.values import ClosedError

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
        #: Whether a sync has failed here: what it was to cover may be lost.
        self.is_failed = False
        self._tail: OpenFile | None = None

    def sync(self) -> None:
        """Return once everything that any process has written so far is durable."""
        for _ in range(_TRIES):
            state = self._files.look()
            if state is None or state.marks.durable == state.marks.high:
                return
            manifest = state.manifest
            end = state.marks.high
            durable = Durable(
                *(False, manifest.active.number, state.position, end, state.crc),
                *(state.last_us, state.active_bytes),
            )
            segment = self._files.segment(manifest, manifest.active)
            self._sync(segment.fd, manifest, durable)
            if self._is_still(manifest):
                self._know(end)
                return
        raise ClosedError("the partition changes hands all the time, try again")

    def sync_file(self, fd: int, manifest: Manifest, end: End) -> None:
        """Make the last segment durable up to `end`; for whoever holds the lock."""
        durable = Durable(
            *(False, end.segment, end.position, end.next, end.crc, end.last_us, end.size_bytes)
        )
        self._sync(fd, manifest, durable)
        self._know(end.next)

    def _sync(self, fd: int, manifest: Manifest, durable: Durable) -> None:
        try:
            self._io.sync(fd)
        except OSError:
            self.is_failed = True
            self._note(manifest, durable, is_failed=True)
            raise
        self._note(manifest, durable, is_failed=False)

    def _know(self, end: int) -> None:
        self._files.note_durable(end)
        if self._tell is not None:
            self._tell(self._files, end, durable_only=True)

    def _is_still(self, manifest: Manifest) -> bool:
        """Whether the epoch that was synced is the present one."""
        state = self._files.look()
        return state is not None and state.manifest.epoch == manifest.epoch

    def _note(self, manifest: Manifest, durable: Durable, *, is_failed: bool) -> None:
        """Write into the tail how far it is durable, or that nobody can know any more."""
        if self._tell is None:
            return
        path = self._files.place.path(manifest.tail)
        if self._tail is None or self._tail.path != path:
            try:
                self._tail = OpenFile(self._io, path, "write")
            except FileNotFoundError:
                return
        tail = self._tail
        is_locked = self._io.try_lock(tail.fd)
        if not is_locked and not is_failed:
            # Another process writes its own mark; ours follows with the next sync.
            return
        try:
            seed = self._files.place.tail_seed(manifest.epoch.number)
            known = read_tail(self._io, tail.fd, seed).durable
            if known is not None and known.is_failed:
                self.is_failed = True
                raise ClosedError("a sync has failed here before, open the log anew")
            if is_failed:
                mark = known or Durable(
                    False, durable.segment, FRAMES_AT, manifest.active.base, 0, durable.last_us, 0
                )
                if mark.segment != durable.segment:
                    mark = mark._replace(
                        segment=durable.segment,
                        position=FRAMES_AT,
                        next=manifest.active.base,
                        crc=0,
                        size_bytes=0,
                    )
                failed = pack_durable(seed, mark._replace(is_failed=True))
                self._io.pwrite(tail.fd, failed, DURABLE_AT)
            elif known is None or known.next < durable.next:
                self._io.pwrite(tail.fd, pack_durable(seed, durable), DURABLE_AT)
        finally:
            if is_locked:
                self._io.unlock(tail.fd)
