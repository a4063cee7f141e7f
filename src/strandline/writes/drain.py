"""From the queues into the delta: assigns epochs, applies, freezes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic

from strandline.clock import Clock, Timer
from strandline.locks import Attempt, holding
from strandline.values import (
    ClosedError,
    Durability,
    FailedError,
    RejectedError,
    StrandlineError,
    UnavailableError,
)
from strandline.writes.channel import Barrier, Channel, Item
from strandline.writes.contracts import C, Delta, F, R, S, V, W
from strandline.writes.ending import Ending
from strandline.writes.metrics import SAMPLE_MASK, FlushReason
from strandline.writes.receipt import WriteReceipt, refused
from strandline.writes.settings import Settings
from strandline.writes.standby import Standby
from strandline.writes.storage import Storage
from strandline.writes.subscriber import Subscriber, Subscribers
from strandline.writes.view import Stamped, WriteView

# Looking up an enumeration's members is slow.
_WAIT = FlushReason.WAIT
_BRACKET = FlushReason.BRACKET


class Drain(Generic[W, R, F, V, S, C]):
    """Takes writes from the channels in turn, assigns epochs, applies, freezes.

    One thread at a time holds `lock` and works for all. A thread that finds the lock
    taken leaves its write in the queue: the holder checks `drain_pending` after
    releasing the lock, whatever it held it for, and passes the work on.
    """

    def __init__(
        self,
        settings: Settings,
        names: Sequence[str],
        context: C,
        new_delta: Callable[[C], Delta[W, R, F, V, C]],
        storage: Storage[F, S],
        *,
        subscribers: Subscribers[V, F, S],
        fail: Callable[[BaseException], BaseException],
        ending: Ending,
        clock: Clock,
    ) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.attempt: Attempt = Attempt(self.lock)
        #: Guards the queues. Held briefly, and never while waiting for `lock`.
        self.mutex: threading.Lock = threading.Lock()
        self.storage = storage
        self.epoch: int = 0
        self.rejected: int = 0
        #: Counts freezes by reason, except those for a waiting caller.
        self.flushes: Final = dict.fromkeys(FlushReason, 0)
        self.waits: int = 0
        #: Something was queued since the last round of draining.
        self.drain_pending: bool = False
        #: A write may be applied at once, without the queues.
        self.is_direct: bool = False
        #: No more writes are accepted. Set under `mutex`.
        self.is_closed: bool = False
        self._settings = settings
        self._flush_bytes = settings.flush_bytes
        self._new_delta = new_delta
        self._delta = new_delta(context)
        self._fail = fail
        self._subscribers = subscribers
        self._ending = ending
        self._clock = clock
        self._started = False
        self._is_disowned = False
        #: The first epoch that is not frozen, and whether any write was applied since.
        self._start = 1
        self._is_fresh = False
        self._size = 0
        self._timer: Timer | None = None
        self._turn = 0
        #: Items taken from their queue in this round; their outcome may not be published yet.
        self.taken: list[Item[W, R]] = []
        self.channels: Final = [self._new_channel(name) for name in names]
        self._standby = Standby("strandline-drain", self._serve)

    def _new_channel(self, name: str) -> Channel[W, R]:
        return Channel(name, self._settings.queue_capacity, self)

    @property
    def applied(self) -> int:
        """The last epoch that counts as applied."""
        return self.epoch

    def subscribe(self) -> Subscriber[V, F, S]:
        """Follow the views from now on."""
        subscriber = self._subscribers.add(self._clock, self.view)
        if self._ending.reason is not None:
            subscriber.end(self._ending)
        return subscriber

    # --- start and stop ---

    def start(self) -> None:
        """Start taking what is queued."""
        with self.held():
            if self._started:
                return
            self._started = True
            self.storage.flushed_at = self._clock.monotonic()
            self._set_direct()
        self.drain_pending = True
        self.run(may_wait=False)

    def close(self, deadline: float) -> None:
        """Accept no more writes."""
        with self.mutex:
            self.is_closed = True
        with self.held(deadline):
            self._set_direct()

    def check_open(self) -> None:
        """Raise unless writes are accepted. The caller holds `mutex`."""
        self._ending.check()
        if self.is_closed:
            raise ClosedError("the coordinator is being stopped, open the store again")

    def finish(self, deadline: float) -> None:
        """Take everything accepted, held writes included, and freeze it."""
        self._started = True
        for channel in self.channels:
            channel.resume()
        while any(channel.head() for channel in self.channels):
            with self.held(deadline):
                self._guarded_round(may_wait=True)
            self.storage.written.reach(self._start - 1, deadline)
        with self.held(deadline):
            self.freeze(FlushReason.STOP)

    def cancel_timer(self) -> None:
        """Cancel the timer of the flush interval."""
        timer = self._timer
        if timer is not None:
            timer.cancel()

    def hand_back_all(self, error: Callable[[], StrandlineError]) -> None:
        """Refuse all writes still queued."""
        for channel in self.channels:
            for item in channel.take_all():
                item.receipt.refuse(error())

    def wait_idle(self, deadline: float) -> None:
        """Return once no thread drains any more; ends the background thread."""
        self._standby.close()
        with self.held(deadline):
            pass

    def check_owner(self) -> None:
        """Raise in a forked child: the draining thread does not exist there."""
        if self._is_disowned:
            self._ending.check()

    def reset_after_fork(self) -> None:
        """Start again in a forked child, where no other thread runs."""
        self._is_disowned = True
        self.lock = threading.Lock()
        self.attempt = Attempt(self.lock)
        self.mutex = threading.Lock()
        self._standby.dismiss()

    # --- draining ---

    def run(self, *, may_wait: bool, until: float | None = None) -> None:
        """Take what is queued, unless another thread does.

        Without `may_wait` it waits for nothing outside this process; with it, at most
        until `until`.
        """
        if not self.attempt:
            # Set before trying again: either the holder sees it, or it has released the lock.
            self.drain_pending = True
            if not self.attempt:
                return
        try:
            try:
                self._guarded_round(may_wait=may_wait, until=until)
            except FailedError:
                pass  # Every receipt raises the error.
            finally:
                self.lock.release()
            if self.drain_pending:
                self.pass_on()
        except BaseException:
            # An interrupt may have prevented passing the work on.
            self.pass_on()
            raise

    @holding
    def held(self, deadline: float | None = None) -> Iterator[None]:
        """Hold `lock` for a block, and pass on work that arrived meanwhile.

        UnavailableError if another thread holds it until `deadline`.
        """
        left_s = None if deadline is None else deadline - self._clock.monotonic()
        try:
            if not Attempt(self.lock, left_s):
                raise UnavailableError("a thread is still writing, close again later")
            try:
                yield
            finally:
                self.lock.release()
        finally:
            try:
                if self.drain_pending:
                    self.pass_on()
            except BaseException:
                self.pass_on()
                raise

    def _guarded_round(self, *, may_wait: bool, until: float | None = None) -> None:
        """Do a round; if interrupted anywhere, every write still gets an outcome."""
        try:
            self._round(may_wait=may_wait, until=until)
        except BaseException as exc:
            self.drain_pending = True
            self._give_up_taken(exc)
            raise
        finally:
            self.taken.clear()

    def _give_up_taken(self, cause: BaseException) -> None:
        lost = [item for item in self.taken if not item.channel.holds(item)]
        for item in lost:
            if not item.receipt.is_settled:
                self._fail(cause)
                item.receipt.refuse(self._ending.cut_short())
            # It may have been settled without waking its waiters.
            for waiter in tuple(item.waiters):
                waiter.wake()

    def pass_on(self) -> None:
        """Have another thread take what is queued: a waiting one, or the background thread."""
        heads = [head for channel in self.channels if (head := channel.head()) is not None]
        for head in heads:
            for waiter in tuple(head.waiters):
                if waiter.leads:
                    waiter.wake()
                    return
        if heads:
            self._standby.wake()

    def deadline(self, timeout_s: float | None) -> float | None:
        """Return when a write is handed back, given its `timeout_s`."""
        return None if timeout_s is None else self._clock.monotonic() + timeout_s

    def expiry(self, item: Item[W, R]) -> float | None:  # noqa: ARG002 - A bracket has one.
        """Return when a queued item is to be handed back."""
        return None

    def _round(self, *, may_wait: bool, until: float | None = None) -> None:  # noqa: ARG002 - A bracket may have to wait.
        """Take what is queued now; what arrives meanwhile is passed on."""
        self.drain_pending = False
        if self._started:
            self._serve_queues(self._settle_now)

    def _serve_queues(self, take: Callable[[Item[W, R]], bool]) -> None:
        """Take items in turn until the queues are empty, or `take` returns False."""
        turns = sum(channel.depth + 1 for channel in self.channels)
        while not self.storage.is_backlogged and self._ending.reason is None:
            item = self._next()
            if item is None:
                return
            turns -= 1
            if not take(item) or turns <= 0:
                self.drain_pending = True
                return

    def _next(self) -> Item[W, R] | None:
        """Take one item, round robin over the channels."""
        for _ in self.channels:
            self._turn = (self._turn + 1) % len(self.channels)
            item = self.channels[self._turn].take()
            if item is not None:
                return item
        return None

    def _accept_barrier(self, barrier: Barrier, epoch: int) -> None:
        turn = self.storage.durable.rounds.begun + 1 if barrier.durable else 0
        barrier.receipt.require_sync(turn)
        barrier.receipt.accept(epoch, None)
        level = Durability.DURABLE if barrier.durable else Durability.WRITTEN
        self.storage.request(level, epoch, turn)

    def apply_now(self, write: W) -> WriteReceipt[R]:
        """Assign the next epoch to `write` and apply it. The caller holds `lock`."""
        epoch = self.epoch + 1
        started = None if self.epoch & SAMPLE_MASK else self._clock.monotonic()
        try:
            result = self._delta.apply(write)
            if started is not None:
                self.storage.measured.apply.add_s(self._clock.monotonic() - started)
        except Exception as exc:
            self.rejected += 1
            self.epoch = epoch
            return refused(self.storage, rejection(exc, epoch), epoch)
        except BaseException as exc:
            # Interrupted half-way: the state of the delta is unknown.
            self.epoch = epoch
            raise self._fail(exc)
        # Set after `apply`: other threads read it as the applied mark.
        self.epoch = epoch
        self._is_fresh = True
        if self._timer is None:
            self._arm_timer()
        try:
            self._size = size = self._delta.size()
        except BaseException as exc:
            raise self._fail(exc)
        if size >= self._flush_bytes:
            self.freeze(FlushReason.SIZE)
            self.storage.request(Durability.WRITTEN, epoch)
        return WriteReceipt(self.storage, epoch, result)

    def _settle_now(self, item: Item[W, R]) -> bool:
        if isinstance(item, Barrier):
            self.freeze(FlushReason.EXPLICIT)
            self._accept_barrier(item, self.epoch)
        else:
            item.receipt.settle_as(self.apply_now(item.write))
        return True

    # --- freezing ---

    def freeze(self, reason: FlushReason) -> None:
        """Hand the delta to the storage and begin a new one. The caller holds `lock`."""
        if not self._is_fresh:
            return
        if self._ending.reason is not None:
            raise self._ending.reason()
        # On Python 3.11, calling an instance attribute by its full name is slow.
        new_delta = self._new_delta
        started = None if self._start - 1 & SAMPLE_MASK else self._clock.monotonic()
        try:
            frozen, context = self._delta.freeze()
            if reason is not _BRACKET:
                # A bracket begins with a new delta.
                self._delta = new_delta(context)
            if started is not None:
                self.storage.measured.freeze.add_s(self._clock.monotonic() - started)
        except BaseException as exc:
            raise self._fail(exc)
        storage = self.storage
        end = self.epoch + 1
        storage.frozen.append((frozen, range(self._start, end), self._size))
        self._start = end
        self._is_fresh = False
        if reason is _WAIT:
            # A waiting caller flushes at once, as a bracket does, so no backlog builds up.
            self.waits += 1
        else:
            self.flushes[reason] += 1
            if reason is not _BRACKET:
                self._update_backlog()
        if self._subscribers.subscribers:
            self._subscribers.offer(self.view_locked())

    def freeze_for(self, epoch: int) -> int:
        """Freeze if `epoch` is not frozen; return the last epoch that needs no other freeze."""
        with self.held():
            if epoch >= self._start:
                self.freeze(_WAIT)
            # Epochs after the last freeze were refused by `apply`, or are still to be frozen.
            return self._start - 1 if self._is_fresh else self.epoch

    def _update_backlog(self) -> None:
        # Invariant: set before reading the backlog, so that a flush that ends meanwhile either
        # sees the flag or is seen here.
        self.storage.is_backlogged = True
        frozen = tuple(self.storage.frozen)
        self.storage.is_backlogged = (
            len(frozen) > 1
            and sum(size for _, _, size in frozen) >= self._settings.frozen_bytes_max
        )
        self._set_direct()

    def release_backpressure(self) -> None:
        """Take writes again if enough of the frozen deltas were written."""
        with self.held():
            self._update_backlog()
        if not self.storage.is_backlogged:
            self.pass_on()

    def _set_direct(self) -> None:
        self.is_direct = (
            self._started
            and not self.is_closed
            and not self.storage.is_backlogged
            and self._ending.reason is None
        )

    # --- the interval ---

    def _arm_timer(self) -> None:
        interval = self._settings.flush_interval_s
        start = self._start
        delay = interval - (self._clock.monotonic() - self.storage.flushed_at) % interval
        self._timer = self._clock.call_later(delay, lambda: self._on_interval(start))

    def _on_interval(self, start: int) -> None:
        with contextlib.suppress(StrandlineError):  # Each waiter gets the same error.
            with self.held():
                self._timer = None
                if not self._is_fresh:
                    return
                waited_s = self._clock.monotonic() - self.storage.flushed_at
                if self._start != start and waited_s < self._settings.flush_interval_s:
                    self._arm_timer()
                    return
                self.freeze(FlushReason.INTERVAL)
                epoch = self.epoch
            self.storage.written.reach(epoch)

    # --- views ---

    def view(self) -> WriteView[V, F, S]:
        """Return everything applied, frozen and stored at this moment."""
        with self.held():
            return self.view_locked()

    def view_locked(self) -> WriteView[V, F, S]:
        """Do what `view` does for a caller that holds `lock`."""
        current = self._delta.reader()
        frozen = tuple(self.storage.frozen)
        stored = self.storage.stored
        return make_view(current, frozen, stored, self.epoch, self._start)

    def take_queued(self) -> int:
        """Take what is queued, unless another thread does; return the last epoch applied."""
        self._serve()
        return self.applied

    def _serve(self) -> None:
        self.run(may_wait=True)


def rejection(error: Exception, epoch: int) -> StrandlineError:
    """Return the error that the caller of a refused write gets."""
    if isinstance(error, StrandlineError):
        return error
    return RejectedError(epoch, error)


def make_view(
    current: V,
    frozen: tuple[tuple[F, range, int], ...],
    stored: tuple[S, tuple[F, range, int] | None],
    applied: int,
    start: int,
) -> WriteView[V, F, S]:
    """Make a view of parts that were read in this order, so that no delta is missed."""
    snapshot, entry = stored
    written = 0 if entry is None else entry[1].stop
    return WriteView(
        current=current,
        frozen=tuple(Stamped(f, e) for f, e, _ in reversed(frozen) if e.start >= written),
        snapshot=snapshot,
        last_written=None if entry is None else Stamped(entry[0], entry[1]),
        applied=applied,
        version=start + written,
    )
