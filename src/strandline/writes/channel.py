"""One named queue of writes."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Generic

from strandline.values import ClosedError, Durability, UnavailableError, UnknownError
from strandline.values.prompt import prompt_text
from strandline.writes.contracts import R, W
from strandline.writes.metrics import SAMPLE_MASK, FlushReason
from strandline.writes.receipt import FlushReceipt, WriteReceipt
from strandline.writes.waiter import LoopWaiter, ThreadWaiter, Waiter
from strandline.writes.watermark import Watermark

if TYPE_CHECKING:
    from strandline.writes.drain import Drain
    from strandline.writes.subscriber import Subscriber
    from strandline.writes.view import WriteView


# Looking up an enumeration's members is slow.
_APPLIED: Final = Durability.APPLIED
_DURABLE: Final = Durability.DURABLE
_WAIT = FlushReason.WAIT


class Item(Generic[W, R]):
    """A write in its queue."""

    __slots__ = ("channel", "deadline", "durable_waiters", "receipt", "waiters", "write")

    def __init__(self, channel: Channel[W, R], write: W, deadline: float | None) -> None:
        self.channel: Final = channel
        self.write: Final = write
        #: When the write is handed back if the bracket was not entered by then.
        self.deadline: Final = deadline
        #: Waiters for the outcome.
        self.waiters: list[Waiter] = []
        #: Those of the waiters that wait until the write is durable, if it succeeds.
        self.durable_waiters: list[Waiter] = []
        self.receipt: WriteReceipt[R] = WriteReceipt(channel.storage, _item=self)

    def enter(self, waiter: Waiter, *, until_durable: bool) -> None:
        """Register a waiter."""
        self.waiters.append(waiter)
        if until_durable:
            self.durable_waiters.append(waiter)

    def move(self, epoch: int, mark: Watermark) -> Sequence[Waiter]:
        """Make the durable waiters wait for `mark` from now on; return them."""
        with self.channel.mutex:
            mark.waiters += [(epoch, waiter) for waiter in self.durable_waiters]
            return tuple(self.durable_waiters)

    def leave(self, waiter: Waiter, epoch: int, mark: Watermark) -> None:
        """Unregister the waiter wherever it is registered."""
        with self.channel.mutex:
            if waiter in self.waiters:
                self.waiters.remove(waiter)
            if waiter in self.durable_waiters:
                self.durable_waiters.remove(waiter)
                if (epoch, waiter) in mark.waiters:
                    mark.waiters.remove((epoch, waiter))


class Barrier(Item[Any, Any]):
    """A flush in its queue: it covers every write ahead of it."""

    __slots__ = ("durable",)

    def __init__(self, channel: Channel[Any, Any], *, durable: bool) -> None:
        super().__init__(channel, None, None)
        self.durable: bool = durable
        self.receipt: FlushReceipt = FlushReceipt(channel.storage, _item=self)


class Channel(Generic[W, R]):
    """Accepts writes in order, up to a bound; made by the coordinator.

    Writes of one channel are applied in the order in which they were accepted.
    Any thread may call it.
    """

    def __init__(self, name: str, capacity: int, drain: Drain[W, R, Any, Any, Any, Any]) -> None:
        self.name = name
        self.storage: Final = drain.storage
        self._written = drain.storage.written
        self.backpressure: int = 0
        self._capacity = capacity
        self._drain = drain
        self._items: deque[Item[W, R]] = deque()
        self._barriers = 0
        self._paused = False
        self._is_measuring = False
        self._space: list[Waiter] = []

    def __repr__(self) -> str:
        return prompt_text("Channel", self.name, queued=len(self._items), paused=self._paused)

    # --- the way in ---

    def write(
        self, write: W, level: Durability = _APPLIED, timeout_s: float | None = None
    ) -> WriteReceipt[R]:
        """Accept `write`, waiting for room in the queue if need be, and for `level`.

        With APPLIED, the default, it does not wait for the write to be applied.
        UnavailableError, with the write in `.write`, if it was not taken within
        `timeout_s`. ClosedError or FailedError if the coordinator has ended. Waiting for
        `level` raises what the receipt raises; UnknownError for a write that was taken
        and whose outcome is unknown. Must not be called from an event loop.
        """
        # The fast path: if nothing is in the way, the write is applied and flushed right
        # here, with no queue, no hand-off and no wait. Each call costs time here, so `run`
        # and `Stage.attempt` are inlined.
        drain, written = self._drain, self._written
        if not drain.epoch & SAMPLE_MASK and self._begins_sample():
            return self._measured(write, level, timeout_s)
        if not drain.attempt:
            return self._write_queued(write, level, timeout_s)
        flushes = False
        try:
            try:
                try:
                    if self._items or self._paused or not drain.is_direct:
                        receipt = None
                    else:
                        receipt = drain.apply_now(write)
                        if level is not _APPLIED and written.attempt_busy:
                            flushes = True
                            drain.freeze(_WAIT)
                finally:
                    drain.lock.release()
                if drain.drain_pending:
                    drain.pass_on()
                is_written = flushes and self.storage.flush_frozen()
            finally:
                if flushes:
                    written.busy.release()
            if flushes and written.mark.waiters:
                written.wake_next()
        except BaseException:
            drain.pass_on()
            written.wake_next()
            raise
        if receipt is None or (
            level is not _APPLIED and (level is _DURABLE or not is_written or receipt.error)
        ):
            return self._write_slowly(write, receipt, level, timeout_s)
        return receipt

    def try_write(self, write: W, timeout_s: float | None = None) -> WriteReceipt[R]:
        """Accept `write` without ever waiting; may be called from an event loop.

        Raises UnavailableError with the write in `.write` when the queue is
        full. `timeout_s` bounds how long a bracketed store may take to take it.
        """
        return self._try_queued(write, timeout_s)

    def hand_over(self, write: W, timeout_s: float | None = None) -> WriteReceipt[R]:
        """Do what `try_write` does, for a write that is to be durable.

        The syncing thread takes it, together with what other threads queue meanwhile.
        """
        receipt = self._accept(write, timeout_s)
        self.storage.request_queued()
        return receipt

    async def write_on_loop(self, write: W, timeout_s: float | None = None) -> WriteReceipt[R]:
        """Do what `write` does, on the running event loop; it waits for room only."""
        item = self._item(write, timeout_s)
        if not self._put(item):
            await self._space_on_loop(item, timeout_s)
        self._drain.run(may_wait=False)
        return item.receipt

    def flush(self, *, durable: bool = False) -> WriteReceipt[None]:
        """Have all writes accepted by this channel so far written, and synced if `durable`.

        Returns at once, with a receipt whose epoch is the last one covered. It is never
        refused for lack of room. On a paused channel it is held as long as the writes
        ahead of it are.
        """
        with self._drain.mutex:
            self._drain.check_open()
            barrier = self._items[-1] if self._items else None
            if isinstance(barrier, Barrier):
                barrier.durable |= durable
            else:
                barrier = Barrier(self, durable=durable)
                # Count first, and remove from the count first: an interrupt in between leaves
                # room for one write too many, never for one too few.
                self._barriers += 1
                self._items.append(barrier)
        self._drain.drain_pending = True
        self._drain.run(may_wait=False)
        return barrier.receipt

    # --- reading ---

    def view(self) -> WriteView[Any, Any, Any]:
        """Return everything applied up to this moment, of all channels."""
        return self._drain.view()

    def subscribe(self) -> Subscriber[Any, Any, Any]:
        """Follow the views from now on, as `Coordinator.subscribe` does."""
        return self._drain.subscribe()

    # --- pausing ---

    def pause(self) -> None:
        """Take no more writes from the queue. Writes are still accepted, up to the bound.

        Does nothing once the coordinator is being stopped, because that takes held writes.
        """
        with self._drain.mutex:
            self._paused = not self._drain.is_closed

    def resume(self) -> None:
        """Take writes again, held ones first."""
        self._paused = False
        self._drain.drain_pending = True
        self._drain.run(may_wait=False)

    @property
    def depth(self) -> int:
        """How many writes are queued."""
        return len(self._items) - self._barriers

    # --- for the drain ---

    @property
    def mutex(self) -> threading.Lock:
        """Guards the queue, and the waiters of its items."""
        return self._drain.mutex

    def head(self) -> Item[W, R] | None:
        """Return the item that `take` would return, without removing it."""
        with self._drain.mutex:
            return self._head()

    def take(self) -> Item[W, R] | None:
        """Remove and return the next item, if there is one and it is not held."""
        with self._drain.mutex:
            item = self._head()
            if item is not None:
                # Append to `taken` first: an interrupt after the removal must not lose the item.
                self._drain.taken.append(item)
                self._remove(item)
            return item

    def holds(self, item: Item[Any, Any]) -> bool:
        """Whether `item` is queued."""
        with self._drain.mutex:
            return item in self._items

    def withdraw(self, item: Item[Any, Any]) -> bool:
        """Remove `item`; False when it has been taken already."""
        with self._drain.mutex:
            if item not in self._items:
                return False
            self._remove(item)
            return True

    def take_expired(self, now: float) -> list[Item[W, R]]:
        """Remove and return the items whose deadline has passed."""
        with self._drain.mutex:
            late = [i for i in self._items if i.deadline is not None and i.deadline <= now]
            for item in late:
                self._remove(item)
            return late

    def take_all(self) -> list[Item[W, R]]:
        """Remove and return everything, held or not."""
        with self._drain.mutex:
            items = list(self._items)
            for item in items:
                self._remove(item)
            return items

    def earliest_deadline(self) -> float | None:
        """Return the first deadline in the queue."""
        with self._drain.mutex:
            return min((i.deadline for i in self._items if i.deadline is not None), default=None)

    def drain(self, until: float | None = None) -> None:
        """Apply what is queued, unless another thread does."""
        self._drain.run(may_wait=True, until=until)

    def try_drain(self) -> None:
        """Do the same without waiting for anything outside this process."""
        self._drain.run(may_wait=False)

    def check_owner(self) -> None:
        """Raise in a forked child, where no thread will ever drain."""
        self._drain.check_owner()

    def expiry(self, item: Item[W, R]) -> float | None:
        """Return when `item` is handed back if it was not taken by then."""
        return self._drain.expiry(item)

    def pass_on(self) -> None:
        """Wake another thread to drain."""
        self._drain.pass_on()

    # --- inside ---

    def _begins_sample(self) -> bool:
        """Whether to measure the next write: if no thread is measuring one."""
        if self._is_measuring:
            return False
        self._is_measuring = True
        return True

    def _measured(self, write: W, level: Durability, timeout_s: float | None) -> WriteReceipt[R]:
        clock = self.storage.clock
        started = clock.monotonic()
        try:
            receipt = self.write(write, level, timeout_s)
        finally:
            self._is_measuring = False
        self.storage.measured.send.add_s(clock.monotonic() - started)
        return receipt

    def _write_queued(
        self, write: W, level: Durability, timeout_s: float | None
    ) -> WriteReceipt[R]:
        item = self._item(write, timeout_s)
        if not self._put(item):
            self._wait_space(item)
        try:
            if level is _APPLIED:
                self.drain(item.deadline)
            else:
                self._wait(item.receipt, level, timeout_s)
        except BaseException:
            item.receipt.see()
            self.withdraw(item)
            raise
        return item.receipt

    def _write_slowly(
        self,
        write: W,
        receipt: WriteReceipt[R] | None,
        level: Durability,
        timeout_s: float | None,
    ) -> WriteReceipt[R]:
        """Do what the fast path did not: all of it, or the wait for `level`."""
        if receipt is None:
            return self._write_queued(write, level, timeout_s)
        self._wait(receipt, level, timeout_s)
        return receipt

    def _wait(self, receipt: WriteReceipt[R], level: Durability, timeout_s: float | None) -> None:
        try:
            receipt.wait(level, timeout_s)
        except ClosedError as exc:
            if receipt.error is None:
                # The caller has no receipt yet, so ClosedError would look like a write not taken.
                raise UnknownError(exc) from exc
            raise

    def _item(self, write: W, timeout_s: float | None) -> Item[W, R]:
        return Item(self, write, self._drain.deadline(timeout_s))

    def _head(self) -> Item[W, R] | None:
        if self._items and (not self._paused or isinstance(self._items[0], Barrier)):
            return self._items[0]
        return None

    def _remove(self, item: Item[W, R]) -> None:
        self._items.remove(item)
        self._barriers -= isinstance(item, Barrier)
        for waiter in tuple(self._space):
            waiter.wake()

    def _try_queued(self, write: W, timeout_s: float | None) -> WriteReceipt[R]:
        receipt = self._accept(write, timeout_s)
        self._drain.run(may_wait=False)
        return receipt

    def _accept(self, write: W, timeout_s: float | None) -> WriteReceipt[R]:
        item = self._item(write, timeout_s)
        if not self._put(item):
            raise self._full(write)
        return item.receipt

    def _put(self, item: Item[W, R]) -> bool:
        with self._drain.mutex:
            self._drain.check_open()
            if self.depth >= self._capacity:
                return False
            self._items.append(item)
        self._drain.drain_pending = True
        return True

    def _full(self, write: W) -> UnavailableError:
        with self._drain.mutex:
            self.backpressure += 1
        return UnavailableError(
            "the channel's queue is full, try the write again later",
            write=write,
            channel=self.name,
            capacity=self._capacity,
        )

    def _wait_space(self, item: Item[W, R]) -> None:
        waiter = ThreadWaiter(self.storage.clock)
        try:
            self._space.append(waiter)
            while not self._put(item):
                self.drain(item.deadline)
                if self.depth >= self._capacity and not waiter.wait(item.deadline):
                    raise self._full(item.write)
        finally:
            if waiter in self._space:
                self._space.remove(waiter)

    async def _space_on_loop(self, item: Item[W, R], timeout_s: float | None) -> None:
        waiter = LoopWaiter()
        try:
            self._space.append(waiter)
            async with asyncio.timeout(timeout_s):
                while not self._put(item):
                    await waiter.wait()
        except TimeoutError:
            raise self._full(item.write) from None
        finally:
            if waiter in self._space:
                self._space.remove(waiter)
