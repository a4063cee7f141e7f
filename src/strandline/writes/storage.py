"""From frozen to written to durable."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic
from uuid import UUID

from strandline.clock import Clock
from strandline.values import Durability, FullError, StrandlineError
from strandline.writes.contracts import F, Flusher, S
from strandline.writes.ending import Ending
from strandline.writes.metrics import SAMPLE_MASK, Measurements
from strandline.writes.rounds import Rounds
from strandline.writes.stage import Stage
from strandline.writes.standby import Standby
from strandline.writes.subscriber import Subscribers


class Storage(Generic[F, S]):
    """Flushes frozen deltas in order, syncs, and keeps the two watermarks.

    Invariant: durable.mark <= written.mark <= the last applied epoch.
    Order of publication: the store, then the view, then the mark, then the wake-up.
    """

    def __init__(
        self,
        flusher: Flusher[F, S],
        snapshot: S,
        *,
        subscribers: Subscribers[Any, F, S],
        fail: Callable[[BaseException], BaseException],
        ending: Ending,
        clock: Clock,
        rounds: Rounds | None = None,
    ) -> None:
        self.clock = clock
        self._monotonic = clock.monotonic
        self.incarnation: UUID = clock.new_id()
        self.written: Final = Stage("written", self._flush, ending, clock)
        self.durable: Final = Stage("durable", self._sync, ending, clock, rounds)
        self.durable.request_round = self._request_round
        #: Frozen and not yet written, oldest first, with their sizes.
        self.frozen: deque[tuple[F, range, int]] = deque()
        #: The last flush's snapshot, and what was flushed.
        self.stored: tuple[S, tuple[F, range, int] | None] = (snapshot, None)
        #: Makes sure that an epoch is frozen; returns the last epoch that `frozen` covers.
        self.freeze_for: Callable[[int], int]
        #: Takes what is queued, unless another thread does; returns the last epoch applied.
        self.take_queued: Callable[[], int]
        #: Called after each flush, before its epochs count as written, if views are followed or
        #: writes are held back.
        self.on_flushed: Callable[[], None]
        #: Too much is frozen and unwritten: take no more writes.
        self.is_backlogged = False
        #: Whether another flush may follow one that stored nothing because the disk was full.
        self.goes_on_when_full = False
        self.flushed_at: float = 0.0
        self.flush_s: float = 0.0
        self.measured: Final = Measurements()
        self.sync_s: float = 0.0
        self._flusher = flusher
        self._subscribers = subscribers
        self._ending = ending
        self._fail = fail
        self._request_lock = threading.Lock()
        #: Requested: the epoch to be written, the epoch to be durable, the round of syncing.
        self._wanted = (0, 0, 0)
        self._is_queued_requested = False
        # Two threads, so that no wait for WRITTEN is behind a slow sync.
        self._flushing = Standby("strandline-flush", self._serve_written)
        self._syncing = Standby("strandline-sync", self._serve_durable)

    def flush_frozen(self) -> bool:
        """Write all that is frozen, for a caller that holds `written.busy`.

        False if the coordinator ended before that.
        """
        frozen, mark, monotonic = self.frozen, self.written.mark, self._monotonic
        while frozen:
            if self._ending.reason is not None:
                return False
            entry = frozen[0]
            self.flushed_at = started = monotonic()
            try:
                snapshot = self._flusher.flush(entry[0], entry[1])
            except BaseException as exc:
                if self.goes_on_when_full and isinstance(exc, FullError):
                    raise
                raise self._fail(exc)
            elapsed_s = monotonic() - started
            self.flush_s += elapsed_s
            if not entry[1].start - 1 & SAMPLE_MASK:
                self.measured.flush.add_s(elapsed_s)
                self.measured.delta_bytes.add(entry[2])
            # Invariant: stored is set before frozen shrinks, and a view reads
            # frozen first, so a delta is always in one of the two.
            self.stored = (snapshot, entry)
            frozen.popleft()
            if self.is_backlogged or self._subscribers.subscribers:
                self.on_flushed()
            mark.value = entry[1].stop - 1
            if mark.waiters:
                mark.wake_reached()
        return True

    def request(self, level: Durability, epoch: int, turn: int = 0) -> None:
        """Have a background thread write or sync `epoch`, up to `level`."""
        with self._request_lock:
            written, durable, turned = self._wanted
            if level is Durability.DURABLE:
                durable, turned = max(durable, epoch), max(turned, turn)
            self._wanted = (max(written, epoch), durable, turned)
        (self._syncing if level is Durability.DURABLE else self._flushing).wake()

    def request_queued(self) -> None:
        """Have a background thread take what is queued now, and make it durable."""
        self._is_queued_requested = True
        self._syncing.wake()

    async def reach_on_loop(self, level: Durability, epoch: int, turn: int = 0) -> None:
        """Return once `epoch` is at `level`, on the running event loop."""
        await self.written.reach_on_loop(epoch, lambda: self.request(Durability.WRITTEN, epoch))
        if level is Durability.DURABLE:
            await self.durable.reach_on_loop(
                epoch, lambda: self.request(Durability.DURABLE, epoch, turn), turn
            )

    def _request_round(self, turn: int) -> None:
        self.request(Durability.DURABLE, 0, turn)

    def level_of(self, epoch: int, turn: int) -> Durability:
        """Return the highest level that an applied epoch has reached."""
        if self.durable.is_reached(epoch, turn):
            return Durability.DURABLE
        return Durability.WRITTEN if self.written.is_reached(epoch) else Durability.APPLIED

    def finish(self, epoch: int, deadline: float, *, durable: bool) -> None:
        """Write and sync everything up to `epoch` as requested, and run other requested work."""
        _, requested, turn = self._wanted
        self.written.reach(epoch, deadline)
        self.durable.reach(epoch if durable else requested, deadline, turn)

    def wait_idle(self, deadline: float) -> None:
        """Return once the flusher is no longer in use; ends the background threads."""
        self._flushing.close()
        self._syncing.close()
        for stage in (self.written, self.durable):
            stage.wait_idle(max(0.0, deadline - self.clock.monotonic()))

    def reset_after_fork(self) -> None:
        """Start again in a forked child, where no other thread runs."""
        self.written.renew_lock()
        self.durable.renew_lock()
        self._request_lock = threading.Lock()
        self._flushing.dismiss()
        self._syncing.dismiss()

    def _flush(self, epoch: int) -> None:
        covered = self.freeze_for(epoch)
        if self.flush_frozen() and self.written.mark.value < covered:
            # The last epochs were refused by `apply`: nothing to write.
            self.written.mark.advance(covered)

    def _sync(self, epoch: int) -> None:  # noqa: ARG002 - All that is written is synced.
        rounds = self.durable.rounds
        rounds.begin()
        target = self.written.mark.value
        started = self.clock.monotonic()
        try:
            self._flusher.sync()
        except BaseException as exc:
            raise self._fail(exc)
        self.sync_s += self.clock.monotonic() - started
        # Before the round ends: a thread waiting for the round checks nothing else.
        self.durable.mark.advance(target)
        rounds.end()

    def _serve_written(self) -> None:
        with contextlib.suppress(StrandlineError):  # Each waiter gets the same error.
            self.written.reach(self._wanted[0])

    def _serve_durable(self) -> None:
        applied = 0
        if self._is_queued_requested:
            # Cleared only after it was seen: a write is queued before the request is made.
            self._is_queued_requested = False
            applied = self.take_queued()
        _, durable, turn = self._wanted
        durable = max(durable, applied)
        with contextlib.suppress(StrandlineError):  # Each waiter gets the same error.
            self.written.reach(durable)
            self.durable.reach(durable, turn=turn)
