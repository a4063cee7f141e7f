"""One timer for many deadlines, and a wait with a timeout, on an event loop and a Clock."""

import asyncio
import contextlib
import heapq
from collections.abc import Callable

from strandline.clock import Clock, Timer


class SharedTimer:
    """Calls `fire` on the loop at each requested time. For the loop's thread."""

    def __init__(self, clock: Clock, fire: Callable[[], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._loop = asyncio.get_running_loop()
        self._due: list[float] = []
        self._timer: Timer | None = None
        self._set_for = float("inf")

    def fire_in(self, delay_s: float) -> None:
        """Fire once after `delay_s`."""
        heapq.heappush(self._due, self._clock.monotonic() + delay_s)
        self._set()

    def close(self) -> None:
        """Cancel all requests."""
        self._due.clear()
        self._cancel()

    def _set(self) -> None:
        if self._due and self._due[0] < self._set_for:
            self._cancel()
            self._set_for = self._due[0]
            delay_s = max(0.0, self._set_for - self._clock.monotonic())
            self._timer = self._clock.call_later(delay_s, self._call)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._set_for = float("inf")

    def _call(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._fire_due)

    def _fire_due(self) -> None:
        now = self._clock.monotonic()
        is_due = False
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
            is_due = True
        self._cancel()
        self._set()
        if is_due:
            self._fire()


async def wait_until(clock: Clock, done: asyncio.Event, timeout_s: float | None) -> bool:
    """Return True once `done` is set, False if `timeout_s` passes on the clock before that."""
    if timeout_s is None:
        return await done.wait()
    over = asyncio.Event()
    timer = SharedTimer(clock, over.set)
    timer.fire_in(timeout_s)
    waits = [asyncio.ensure_future(done.wait()), asyncio.ensure_future(over.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.close()
        for wait in waits:
            wait.cancel()
    return done.is_set()
