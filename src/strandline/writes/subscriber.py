"""Following the views of a coordinator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Generic, NamedTuple

from strandline.clock import Clock, deadline_in
from strandline.values import (
    ClosedError,
    Durability,
    InvalidError,
    StrandlineError,
    UnavailableError,
)
from strandline.values.prompt import few_pairs, prompt_text
from strandline.writes.contracts import F, S, V
from strandline.writes.ending import Ending
from strandline.writes.view import WriteView
from strandline.writes.waiter import LoopWaiter, ThreadWaiter, Waiter
from strandline.writes.watermark import Watermark


class Update(NamedTuple, Generic[V, F, S]):
    """The newest view, and how many views were skipped since the one before."""

    view: WriteView[V, F, S]
    missed: int


class Monitor:
    """The progress that one subscriber reports, and that others wait for.

    The three levels are independent of each other; none ever goes back.
    """

    def __init__(self, ending: Ending, clock: Clock) -> None:
        self._ending = ending
        self._clock = clock
        self._marks = {level: Watermark() for level in Durability}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        epochs = {str(level): mark.value for level, mark in self._marks.items()}
        return prompt_text("Monitor", few_pairs(epochs))

    def epoch(self, level: Durability) -> int:
        """Return the last epoch that the subscriber has reported for `level`."""
        return self._marks[level].value

    def report(self, level: Durability, epoch: int) -> None:
        """Acknowledge everything up to `epoch`; an older epoch changes nothing."""
        with self._lock:
            self._marks[level].advance(epoch)

    def wait(self, level: Durability, epoch: int, timeout_s: float | None = None) -> None:
        """Return once the subscriber has reported `epoch` for `level`.

        Raises ClosedError when the subscriber or the coordinator is gone, and
        UnavailableError when the time is up.
        """
        mark = self._marks[level]
        deadline = deadline_in(self._clock, timeout_s)
        waiter = ThreadWaiter(self._clock)
        with mark.awaited_by(waiter, epoch):
            while mark.value < epoch:
                self._ending.check()
                if not waiter.wait(deadline):
                    raise _late("the subscriber has not come that far yet, wait again", epoch)

    async def wait_on_loop(
        self, level: Durability, epoch: int, timeout_s: float | None = None
    ) -> None:
        """Like `wait`, on the running event loop."""
        mark = self._marks[level]
        waiter = LoopWaiter()
        try:
            async with asyncio.timeout(timeout_s):
                with mark.awaited_by(waiter, epoch):
                    while mark.value < epoch:
                        self._ending.check()
                        await waiter.wait()
        except TimeoutError:
            raise _late("the subscriber has not come that far yet, wait again", epoch) from None

    def renew_lock(self) -> None:
        """Reset the lock in a forked child, where no thread holds it."""
        self._lock = threading.Lock()

    def wake_all(self) -> None:
        """Wake all waiters to check the ending."""
        for mark in self._marks.values():
            mark.wake_all()


class Subscriber(Generic[V, F, S]):
    """Receives the newest view whenever there is one it has not seen.

    Views are states: a slow subscriber gets the newest one and the number of those it
    skipped, and no thread waits for it. Call `initialize` first, once. Iterating ends
    when the subscriber is closed or the coordinator is stopped.
    """

    def __init__(self, subscribers: Subscribers[V, F, S], ending: Ending, clock: Clock) -> None:
        self.monitor: Final = Monitor(ending, clock)
        self._subscribers = subscribers
        self._ending = ending
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self._first: WriteView[V, F, S] | None = None
        self._seen = -1
        self._is_initialized = False
        self._pending: WriteView[V, F, S] | None = None
        self._missed = 0

    def __repr__(self) -> str:
        return prompt_text("Subscriber", seen=self._seen, missed=self._missed)

    def initialize(self) -> WriteView[V, F, S]:
        """Return the view at the time of the subscription; `recv` returns newer ones."""
        if self._is_initialized:
            raise InvalidError("a subscriber is initialized once, continue with recv")
        self._is_initialized = True
        assert self._first is not None
        view, self._first = self._first, None
        return view

    def recv(self, timeout_s: float | None = None) -> Update[V, F, S]:
        """Return the newest view, once there is one that was not returned before.

        Raises ClosedError or FailedError at the end, after the last view, and
        UnavailableError when the time is up.
        """
        deadline = deadline_in(self._clock, timeout_s)
        waiter = ThreadWaiter(self._clock)
        self._waiters.append(waiter)
        try:
            while (update := self._take()) is None:
                if not waiter.wait(deadline):
                    raise _late("there is no newer view yet, wait again", self._seen)
            return update
        finally:
            self._waiters.remove(waiter)

    async def recv_on_loop(self, timeout_s: float | None = None) -> Update[V, F, S]:
        """Like `recv`, on the running event loop."""
        waiter = LoopWaiter()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                while (update := self._take()) is None:
                    await waiter.wait()
        except TimeoutError:
            raise _late("there is no newer view yet, wait again", self._seen) from None
        finally:
            self._waiters.remove(waiter)
        return update

    def __iter__(self) -> Iterator[Update[V, F, S]]:
        while True:
            try:
                yield self.recv()
            except ClosedError:
                return

    async def __aiter__(self) -> AsyncIterator[Update[V, F, S]]:
        while True:
            try:
                yield await self.recv_on_loop()
            except ClosedError:
                return

    def close(self) -> None:
        """Receive no more; wakes threads that wait here or on the monitor."""
        self._subscribers.remove(self)
        self._ending.settle(lambda: ClosedError("this subscriber is closed, subscribe again"))
        self.wake_all()

    # --- for the audience ---

    def begin(self, view: WriteView[V, F, S]) -> None:
        """Take `view` as the first one; drop a pending one that is not newer."""
        with self._lock:
            self._first = view
            if self._pending is not None and self._pending.version <= view.version:
                self._pending = None
                self._missed = 0
            self._seen = max(self._seen, view.version)

    def offer(self, view: WriteView[V, F, S]) -> None:
        """Replace the view that was not received yet, if any, with `view`."""
        with self._lock:
            if view.version <= self._seen:
                return
            self._seen = view.version
            self._missed += self._pending is not None
            self._pending = view
        for waiter in tuple(self._waiters):
            waiter.wake()

    def end(self, reason: Ending) -> None:
        """Notify the subscriber that the coordinator has ended."""
        if reason.reason is not None:
            self._ending.settle(reason.reason)
        self.wake_all()

    def disown(self, reason: Callable[[], StrandlineError]) -> None:
        """Raise `reason` in all calls in a forked child. No thread waits there."""
        self._lock = threading.Lock()
        self.monitor.renew_lock()
        self._ending.settle(reason)

    def wake_all(self) -> None:
        """Wake all waiters to check again."""
        for waiter in tuple(self._waiters):
            waiter.wake()
        self.monitor.wake_all()

    def _take(self) -> Update[V, F, S] | None:
        if not self._is_initialized:
            raise InvalidError("the subscriber has no starting point, call initialize first")
        with self._lock:
            if self._pending is None:
                self._ending.check()
                return None
            update = Update(self._pending, self._missed)
            self._pending = None
            self._missed = 0
            return update


class Subscribers(Generic[V, F, S]):
    """All subscribers of one coordinator."""

    def __init__(self) -> None:
        self.subscribers: tuple[Subscriber[V, F, S], ...] = ()
        self._lock = threading.Lock()

    def add(self, clock: Clock, view: Callable[[], WriteView[V, F, S]]) -> Subscriber[V, F, S]:
        """Add a subscriber that gets every change after its first view, and none twice."""
        subscriber: Subscriber[V, F, S] = Subscriber(self, Ending(), clock)
        # Invariant: added before the view is read. A change in between is offered as well,
        # and `begin` drops it by its version.
        with self._lock:
            self.subscribers = (*self.subscribers, subscriber)
        subscriber.begin(view())
        return subscriber

    def remove(self, subscriber: Subscriber[Any, Any, Any]) -> None:
        """Remove a subscriber."""
        with self._lock:
            self.subscribers = tuple(s for s in self.subscribers if s is not subscriber)

    def offer(self, view: WriteView[V, F, S]) -> None:
        """Pass the newest view to all subscribers."""
        for subscriber in self.subscribers:
            subscriber.offer(view)

    def disown(self, reason: Callable[[], StrandlineError]) -> None:
        """End all subscribers in a forked child: the views stay with the parent."""
        self._lock = threading.Lock()
        for subscriber in self.subscribers:
            subscriber.disown(reason)

    def end(self, ending: Ending) -> None:
        """Notify all subscribers that there will be no more views."""
        for subscriber in self.subscribers:
            subscriber.end(ending)


def _late(message: str, epoch: int) -> UnavailableError:
    return UnavailableError(message, epoch=epoch)
