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

#: How long a stop waits for threads that are still at work, by default.
STOP_TIMEOUT_S = 60.0


class Coordinator(Generic[W, R, F, V, S, C]):
    """Orders, batches and flushes the writes of one store.

    Writes may be queued before `start`. `stop` drains what was accepted,
    flushes and syncs it, and raises what went wrong. As a context manager it
    starts and stops.

    With a `bracket` the store is shared with other processes: each drain
    enters the bracket, applies, flushes and leaves, so that applied = written.
    Where a flush takes long, it `gathers`: it waits for the next writes of those
    that the last drain answered, at most as long as that took.
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
        """Begin to apply writes. A second call does nothing."""
        self._ending.check()
        self._drain.start()

    def stop(
        self, *, durable: bool = True, drain: bool = True, timeout_s: float | None = None
    ) -> None:
        """Accept no more, finish what was accepted, and raise what went wrong.

        Everything accepted is applied and written, and synced if `durable`.
        Without `drain`, what is still queued is refused with ClosedError
        instead. With `timeout_s` the work goes on in another thread;
        UnavailableError says that it has not finished yet, and another `stop`
        waits on. Without it, the same after STOP_TIMEOUT_S. An interrupted stop may be
        repeated. A stop after the end does nothing, or raises the failure again.
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
                # The next call of `stop` does what is left.
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
        """Return the way in of that name."""
        if name not in self._channels:
            raise InvalidError(
                "there is no such channel", channel=name, channels=list(self._channels)
            )
        return self._channels[name]

    @property
    def incarnation(self) -> UUID:
        """Names this run of the coordinator: epochs begin again at 1 in each."""
        return self._storage.incarnation

    def epoch(self, level: Durability) -> int:
        """Return the last epoch at `level`, without waiting; 0 means none yet."""
        if level is Durability.APPLIED:
            return self._drain.applied
        stage = self._storage.written if level is Durability.WRITTEN else self._storage.durable
        return stage.mark.value

    def wait(self, epoch: int, level: Durability, timeout_s: float | None = None) -> None:
        """Return once every write up to `epoch` that was not refused has reached `level`.

        For callers with an epoch and no receipt. InvalidError for one that no write has yet;
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
                "no write has this epoch yet, wait for one that a receipt or a view has",
                epoch=epoch,
                last=last,
            )

    # --- reading ---

    def view(self) -> WriteView[V, F, S]:
        """Return everything applied up to this moment."""
        return self._drain.view()

    def subscribe(self) -> Subscriber[V, F, S]:
        """Follow the views from here on; `.monitor` shows others how far the subscriber is."""
        return self._drain.subscribe()

    def metrics(self) -> WriteMetrics:
        """Return the counters as they stand."""
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
            # The next call of `stop` does what is left.
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
            pass  # Kept and raised by `stop`, or an earlier stop was cut short.
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
        """Why no more writes are taken, if so."""
        return self._ending

    def written_beside(self, result: R) -> WriteReceipt[R]:
        """Return the receipt of such a write: it is written, and durable after the next sync.

        The store has written it after all that was applied before.
        """
        storage = self._storage
        return self.receipt_beside(
            storage.written.mark.value, storage.durable.rounds.begun + 1, result
        )

    def receipt_beside(self, epoch: int, turn: int, result: R) -> WriteReceipt[R]:
        """Return the receipt of such a write, when `epoch` was the last one written, and
        `turn` the next round of syncing."""
        return WriteReceipt(self._storage, epoch, result, None, None, turn)

    @property
    def stages(self) -> tuple[Stage, Stage]:
        """What brings writes to be written, and to be durable."""
        return self._storage.written, self._storage.durable

    def failed_beside(self, cause: BaseException) -> BaseException:
        """End the coordinator for what such a write met; return what its caller shall see."""
        return self._fail(cause)

    def _fail(self, cause: BaseException) -> BaseException:
        """End the coordinator for `cause`; return what the thread that met it shall raise."""
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
        """Make every write and wait say that the store belongs to the parent process."""
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
