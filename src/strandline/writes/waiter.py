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

    __slots__ = ("_event", "_wakeup")

    leads = False

    def __init__(self) -> None:
        check_on_asyncio()
        self._wakeup = _wakeup_of(asyncio.get_running_loop())
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._wakeup.notify(self._event)

    def wake_here(self) -> None:
        """Wake it from the thread of its loop."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until woken."""
        await self._event.wait()
        self._event.clear()


class _LoopWakeup:
    """Wakes the waiters of one loop, any number of them with one call from another thread."""

    __slots__ = ("_events", "_is_notified", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A weak reference: this object lives as long as the loop, and must not keep it alive.
        self._loop = weakref.ref(loop)
        self._events: deque[asyncio.Event] = deque()
        self._is_notified = False

    def notify(self, event: asyncio.Event) -> None:
        # Invariant: an event is queued before the flag is read, and the flag is cleared
        # before the queue is drained, so that no event is left in it.
        self._events.append(event)
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
        while self._events:
            self._events.popleft().set()


_wakeups: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWakeup] = (
    weakref.WeakKeyDictionary()
)


def _wakeup_of(loop: asyncio.AbstractEventLoop) -> _LoopWakeup:
    # Only the loop's own thread calls this.
    wakeup = _wakeups.get(loop)
    if wakeup is None:
        wakeup = _wakeups[loop] = _LoopWakeup(loop)
    return wakeup
