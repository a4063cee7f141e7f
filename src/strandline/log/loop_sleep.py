"""Sleep on an event loop, which one call from another thread ends for any number of tasks."""

import asyncio
import contextlib
from weakref import WeakValueDictionary


class LoopBell:
    """Wakes sleepers of one loop. A loop is called once, however many are rung for meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._rung: set[LoopSleep] = set()
        self._is_calling = False

    def ring(self, sleep: "LoopSleep") -> None:
        """Wake a sleeper, from any thread."""
        # Invariant: a sleeper is entered before it is asked whether the loop is called, and
        # the loop takes the call back before it looks for sleepers.
        self._rung.add(sleep)
        if not self._is_calling:
            self._is_calling = True
            # A closed loop refuses the call; nobody sleeps on it any more.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._is_calling = False
        while self._rung:
            self._rung.pop().rise()


# By the number of the loop, which stays the loop's own for as long as its bell refers to it.
# Two bells of one loop, made at once, cost a call more.
_bells: WeakValueDictionary[int, LoopBell] = WeakValueDictionary()


def bell_of_loop() -> LoopBell:
    """Return the bell of the running loop."""
    loop = asyncio.get_running_loop()
    bell = _bells.get(id(loop))
    if bell is None:
        bell = _bells[id(loop)] = LoopBell(loop)
    return bell


class LoopSleep:
    """The sleep of one task, for a time."""

    __slots__ = ("_bell", "_risen", "_timeout_s", "_timer", "is_over")

    def __init__(self, bell: LoopBell, timeout_s: float | None) -> None:
        self._bell = bell
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._risen: asyncio.Future[None] = bell.loop.create_future()
        #: Whether the time is up.
        self.is_over = False

    def wake(self) -> None:
        """End the present sleep, or the next one if there is none. From any thread."""
        self._bell.ring(self)

    async def wait(self) -> None:
        """Sleep until woken, or until the time is up; it begins with the first sleep."""
        loop = self._bell.loop
        if self._timer is None and self._timeout_s is not None:
            self._timer = loop.call_later(self._timeout_s, self._end)
        await self._risen
        self._risen = loop.create_future()

    def rise(self) -> None:
        """End the sleep. On the loop."""
        if not self._risen.done():
            self._risen.set_result(None)

    def close(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.is_over = True
        self.rise()
