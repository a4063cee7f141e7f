"""Two ways to sleep until another thread has something to say."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Protocol

from strandline.clock import Clock


class Waiter(Protocol):
    """Somebody asleep. A wake-up is a hint: who is woken looks again."""

    #: Whether the sleeper can be asked to do the work it waits for.
    leads: bool

    def wake(self) -> None:
        """End the present sleep, or the next one if there is none. From any thread."""


class ThreadWaiter:
    """A sleeping thread."""

    __slots__ = ("_clock", "_event")

    leads = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = threading.Event()

    def wake(self) -> None:
        self._event.set()

    def wait(self, deadline: float | None) -> bool:
        """Sleep until woken; False when `deadline` came first."""
        timeout_s = None if deadline is None else deadline - self._clock.monotonic()
        if timeout_s is not None and timeout_s <= 0:
            return False
        woken = self._clock.wait(self._event, timeout_s)
        self._event.clear()
        return woken


class LoopWaiter:
    """A coroutine asleep on the running event loop."""

    __slots__ = ("_event", "_loop")

    leads = False

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        # A closed loop refuses the call; nobody sleeps on it any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Sleep until woken."""
        await self._event.wait()
        self._event.clear()
