"""The write coordinator: what a store constructs and owns."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Self
from uuid import UUID

from strandline.clock import Clock, SystemClock, deadline_in
from strandline.locks import start_thread
from strandline.values import (
    ClosedError,
    Durability,
    FailedError,
    InvalidError,
    UnavailableError,
    UnknownError,
)
from strandline.values.prompt import few, prompt_text
from strandline.writes.bracketed import BracketedDrain
from strandline.writes.channel import Channel
from strandline.writes.contracts import Bracket, C, Delta, F, Flusher, R, S, V, W
from strandline.writes.drain import Drain
from strandline.writes.ending import Ending
from strandline.writes.gathering import GatheringDrain
from strandline.writes.loops import check_on_asyncio
from strandline.writes.metrics import FlushReason, WriteMetrics
from strandline.writes.receipt import WriteReceipt
from strandline.writes.rounds import Rounds
from strandline.writes.settings import Settings
from strandline.writes.stage import Stage
from strandline.writes.storage import Storage
from strandline.writes.subscriber import Subscriber, Subscribers
from strandline.writes.view import WriteView
from strandline.writes.waiter import ThreadWaiter
from strandline.writes.watermark import Watermark

#: How long a stop waits for running threads, by default.
STOP_TIMEOUT_S = 60.0


class Coordinator(Generic[W, R, F, V, S, C]):
    """Orders, batches and flushes the writes of one store.

    Writes may be queued before `start`. `stop` drains what was accepted, flushes and
    syncs it, and raises any failure. As a context manager it starts and stops.

    With a `bracket` the store is shared with other processes: each drain enters the
    bracket, applies, flushes and leaves, so that applied = written. With `gathers`, for
    stores with slow flushes, a drain first waits for the next writes of the writers that
    the last drain answered, at most as long as that drain took.
    """

    def __init__(
        self,
        settings: Settings,
        channels: Sequence[str],
        *,
        context: C,
        snapshot: S,
        delta: Callable[[C], Delta[W, R, F, V, C]],
        flusher: Flusher[F, S],
        bracket: Bracket[C] | None = None,
        gathers: bool = False,
        clock: Clock | None = None,
        rounds: Rounds | None = None,
    ) -> None:
        if not channels or len(set(channels)) != len(channels):
            raise InvalidError("name one channel or more, each once", channels=list(channels))
        self._clock = clock if clock is not None else SystemClock()
        self._ending = Ending()
        self._subscribers: Subscribers[V, F, S] = Subscribers()
        self._storage: Storage[F, S] = Storage(
            flusher,
            snapshot,
            subscribers=self._subscribers,
            fail=self._fail,
            ending=self._ending,
            clock=self._clock,
            rounds=rounds,
        )
        parts = (settings, channels, context, delta, self._storage)
        seams: dict[str, Any] = {
            "subscribers": self._subscribers,
            "fail": self._fail,
            "ending": self._ending,
            "clock": self._clock,
        }
        bracketed = GatheringDrain if gathers else BracketedDrain
        self._drain: Drain[W, R, F, V, S, C] = (
            Drain(*parts, **seams)
            if bracket is None
            else bracketed(*parts, bracket=bracket, **seams)
        )
        self._storage.freeze_for = self._drain.freeze_for
        self._storage.take_queued = self._drain.take_queued
        self._storage.on_flushed = self._on_flushed
        self._channels = {channel.name: channel for channel in self._drain.channels}
        self._stop_lock = threading.Lock()
        self._stopping = False
        self._stopped = Watermark()
        _instances.add(self)

    def __repr__(self) -> str:
        return prompt_text("Coordinator", few(self._channels), stopping=self._stopping)

    def check_open(self) -> None:
        """Raise why no more writes are taken, if none are."""
        self._ending.check()

    # --- start and stop ---

    def start(self) -> None:
        """Start applying writes. A second call does nothing."""
        self._ending.check()
        self._drain.start()

    def stop(
        self, *, durable: bool = True, drain: bool = True, timeout_s: float | None = None
    ) -> None:
        """Accept no more writes, finish those accepted, and raise any failure.

        Everything accepted is applied and written, and synced if `durable`. Without
        `drain`, writes still queued are refused with ClosedError instead. With
        `timeout_s` another thread does the work; UnavailableError means that it has not
        finished yet, and another `stop` continues to wait. Without it, the same after
        STOP_TIMEOUT_S. An interrupted stop may be repeated. A stop after the end does
        nothing, or raises the failure again.
        """
        is_first = False
        try:
            with self._stop_lock:
                is_first = not self._stopping
                self._stopping = True
            if is_first and timeout_s is None:
                self._finish(durable=durable, drain=drain)
            elif is_first:
                start_thread(
                    threading.Thread(
                        target=self._finish_aside,
                        kwargs={"durable": durable, "drain": drain},
                        name="strandline-stop",
                        daemon=True,
                    )
                )
        except BaseException:
            if is_first:
                # The next call of `stop` does the rest.
                self._stopping = False
            raise
        self._wait_stopped(STOP_TIMEOUT_S if timeout_s is None else timeout_s)
        if self._ending.cause is not None:
            raise FailedError(self._ending.cause)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # --- writing ---

    def channel(self, name: str) -> Channel[W, R]:
        """Return the channel of that name."""
        if name not in self._channels:
            raise InvalidError(
                "there is no such channel", channel=name, channels=list(self._channels)
            )
        return self._channels[name]

    @property
    def incarnation(self) -> UUID:
        """Identifies this run of the coordinator: in each run, epochs begin again at 1."""
        return self._storage.incarnation

    def epoch(self, level: Durability) -> int:
        """Return the last epoch at `level`, without waiting; 0 means none yet."""
        if level is Durability.APPLIED:
            return self._drain.applied
        stage = self._storage.written if level is Durability.WRITTEN else self._storage.durable
        return stage.mark.value

    def wait(self, epoch: int, level: Durability, timeout_s: float | None = None) -> None:
        """Return once every write up to `epoch` that was not refused has reached `level`.

        For callers with an epoch and no receipt. InvalidError for an epoch not used yet;
        UnavailableError when the time is up; else raises as `Receipt.wait`. Must not be
        called from an event loop.
        """
        self._check_given(epoch)
        deadline = deadline_in(self._clock, timeout_s)
        if level is not Durability.APPLIED:
            self._storage.written.reach(epoch, deadline)
        if level is Durability.DURABLE:
            self._storage.durable.reach(epoch, deadline)

    async def wait_on_loop(
        self, epoch: int, level: Durability, timeout_s: float | None = None
    ) -> None:
        """Like `wait`, on the running event loop."""
        self._check_given(epoch)
        if level is Durability.APPLIED:
            return
        check_on_asyncio()
        try:
            async with asyncio.timeout(timeout_s):
                await self._storage.reach_on_loop(level, epoch)
        except TimeoutError:
            raise UnavailableError(
                f"the epoch is not {level.name.lower()} yet, wait again", epoch=epoch
            ) from None

    def _check_given(self, epoch: int) -> None:
        last = self._drain.applied
        if type(epoch) is not int or not 0 <= epoch <= last:
            raise InvalidError(
                "no write has this epoch yet, wait for an epoch of a receipt or a view",
                epoch=epoch,
                last=last,
            )

    # --- reading ---

    def view(self) -> WriteView[V, F, S]:
        """Return everything applied up to this moment."""
        return self._drain.view()

    def subscribe(self) -> Subscriber[V, F, S]:
        """Follow the views from now on; others see the subscriber's progress in `.monitor`."""
        return self._drain.subscribe()

    def metrics(self) -> WriteMetrics:
        """Return the current counters."""
        measured = self._storage.measured
        return WriteMetrics(
            queue_depth={name: channel.depth for name, channel in self._channels.items()},
            applied=self._drain.epoch - self._drain.rejected,
            rejected=self._drain.rejected,
            backpressure=sum(channel.backpressure for channel in self._channels.values()),
            flushes={**self._drain.flushes, FlushReason.WAIT: self._drain.waits},
            flush_s=self._storage.flush_s,
            syncs=self._storage.durable.rounds.ended,
            sync_s=self._storage.sync_s + self._storage.durable.rounds.sync_s,
            send=measured.send.distribution(),
            apply=measured.apply.distribution(),
            freeze=measured.freeze.distribution(),
            flush=measured.flush.distribution(),
            delta_bytes=measured.delta_bytes.distribution(),
        )

    # --- inside ---

    def _finish_aside(self, *, durable: bool, drain: bool) -> None:
        try:
            self._finish(durable=durable, drain=drain)
        except UnavailableError:
            # The next call of `stop` does the rest.
            self._stopping = False

    def _finish(self, *, durable: bool, drain: bool) -> None:
        deadline = self._clock.monotonic() + STOP_TIMEOUT_S
        try:
            self._drain.close(deadline)
            if not drain:
                self._drain.hand_back_all(_stopped)
            self._drain.finish(deadline)
            self._storage.finish(self._drain.epoch, deadline, durable=durable)
        except (FailedError, ClosedError):
            pass  # `stop` raises it, or an earlier stop was interrupted.
        finally:
            self._ending.settle(_stopped)
            self._drain.cancel_timer()
            self._drain.hand_back_all(_stopped)
            try:
                self._drain.wait_idle(deadline)
                self._storage.wait_idle(deadline)
            finally:
                self._wake_all()
            self._stopped.advance(1)

    def _wait_stopped(self, timeout_s: float) -> None:
        deadline = self._clock.monotonic() + timeout_s
        waiter = ThreadWaiter(self._clock)
        with self._stopped.awaited_by(waiter, 1):
            while not self._stopped.value:
                if not waiter.wait(deadline):
                    raise UnavailableError("the coordinator is still stopping, stop again to wait")

    def _on_flushed(self) -> None:
        if self._subscribers.subscribers:
            self._subscribers.offer(self._drain.view())
        if self._storage.is_backlogged:
            self._drain.release_backpressure()

    # --- writes that a store makes beside its coordinator ---

    @property
    def ending(self) -> Ending:
        """The reason why no more writes are taken, if there is one."""
        return self._ending

    def written_beside(self, result: R) -> WriteReceipt[R]:
        """Return the receipt of a write that the store made itself: durable after the next sync.

        The store has written it after everything applied before.
        """
        storage = self._storage
        return self.receipt_beside(
            storage.written.mark.value, storage.durable.rounds.begun + 1, result
        )

    def receipt_beside(self, epoch: int, turn: int, result: R) -> WriteReceipt[R]:
        """Return the receipt of such a write. `epoch` was the last one written then, and
        `turn` the next round of syncing."""
        return WriteReceipt(self._storage, epoch, result, None, None, turn)

    @property
    def stages(self) -> tuple[Stage, Stage]:
        """The stages that make writes written, and durable."""
        return self._storage.written, self._storage.durable

    def failed_beside(self, cause: BaseException) -> BaseException:
        """End the coordinator because such a write failed; return the error for its caller."""
        return self._fail(cause)

    def _fail(self, cause: BaseException) -> BaseException:
        """End the coordinator because of `cause`; return the error to raise in this thread."""
        if isinstance(cause, FailedError) and self._ending.cause is not None:
            return cause
        self._ending.fail(cause)
        self._drain.is_direct = False
        self._drain.hand_back_all(lambda: FailedError(cause))
        self._wake_all()
        return UnknownError(cause) if isinstance(cause, Exception) else cause

    def _wake_all(self) -> None:
        self._storage.written.end()
        self._storage.durable.end()
        self._subscribers.end(self._ending)

    def disown(self) -> None:
        """Make every write and wait raise: the store belongs to the parent process."""
        self._drain.reset_after_fork()
        self._storage.reset_after_fork()
        self._stop_lock = threading.Lock()
        self._stopping = True
        self._drain.is_direct = False
        self._ending.reason = _forked
        self._subscribers.disown(_forked)
        self._stopped.advance(1)


def _stopped() -> ClosedError:
    return ClosedError("the coordinator was stopped, open the store again")


def _forked() -> ClosedError:
    return ClosedError("the store was opened before a fork, open it again in the child")


_instances: weakref.WeakSet[Coordinator[Any, Any, Any, Any, Any, Any]] = weakref.WeakSet()


def _reset_in_child() -> None:
    for coordinator in tuple(_instances):
        coordinator.disown()


os.register_at_fork(after_in_child=_reset_in_child)
