"""Two ways to block until another thread wakes the waiter."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from typing import Protocol

from strandline.clock import Clock
from strandline.locks import Signal
from strandline.writes.loops import check_on_asyncio


class Waiter(Protocol):
    """A blocked thread or task. A wake-up is a hint: the waiter checks its condition again."""

    #: Whether the waiter can itself do the work that it waits for.
    leads: bool

    def wake(self) -> None:
        """End the current wait, or the next one if there is none. From any thread."""


class ThreadWaiter:
    """A blocked thread."""

    __slots__ = ("_clock", "_event")

    leads = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = Signal()

    def wake(self) -> None:
        self._event.set()

    def wait(self, deadline: float | None) -> bool:
        """Block until woken; False if `deadline` came first."""
        timeout_s = None if deadline is None else deadline - self._clock.monotonic()
        if timeout_s is not None and timeout_s <= 0:
            return False
        woken = self._clock.wait(self._event, timeout_s)
        self._event.clear()
        return woken


class LoopWaiter:
    """A coroutine that waits on the running event loop."""

    # A future for each wait; asyncio.Event would keep a queue of waiters around it.
    __slots__ = ("_future", "_is_woken", "_wakeup")

    leads = False

    def __init__(self) -> None:
        check_on_asyncio()
        self._wakeup = _wakeup_of(asyncio.get_running_loop())
        self._is_woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._wakeup.notify(self)

    def wake_here(self) -> None:
        """Wake it from the thread of its loop."""
        self._is_woken = True
        future = self._future
        if future is not None and not future.done():
            future.set_result(None)

    def forget(self) -> None:
        """Forget a wake-up that came before the condition is checked again."""
        self._is_woken = False

    async def wait(self) -> None:
        """Wait until woken."""
        if not self._is_woken:
            self._future = future = asyncio.get_running_loop().create_future()
            try:
                await future
            finally:
                self._future = None
        self._is_woken = False


class _LoopWakeup:
    """Wakes the waiters of one loop, any number of them with one call from another thread."""

    __slots__ = ("_is_notified", "_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A weak reference: this object lives as long as the loop, and must not keep it alive.
        self._loop = weakref.ref(loop)
        self._waiters: deque[LoopWaiter] = deque()
        self._is_notified = False

    def notify(self, waiter: LoopWaiter) -> None:
        # Invariant: a waiter is queued before the flag is read, and the flag is cleared
        # before the queue is drained, so that no waiter is left in it.
        self._waiters.append(waiter)
        if self._is_notified:
            return
        try:
            self._is_notified = True
            loop = self._loop()
            # A closed loop raises; no task waits on it any more.
            with contextlib.suppress(RuntimeError):
                if loop is not None:
                    loop.call_soon_threadsafe(self._deliver)
        except BaseException:
            self._is_notified = False
            raise

    def _deliver(self) -> None:
        self._is_notified = False
        while self._waiters:
            self._waiters.popleft().wake_here()


_wakeups: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWakeup] = (
    weakref.WeakKeyDictionary()
)


def _wakeup_of(loop: asyncio.AbstractEventLoop) -> _LoopWakeup:
    # Only the loop's own thread calls this.
    wakeup = _wakeups.get(loop)
    if wakeup is None:
        wakeup = _wakeups[loop] = _LoopWakeup(loop)
    return wakeup
