"""An event loop in its own thread, for a store whose client is asyncio-only."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from strandline.clock import Clock, SystemClock
from strandline.locks import Latch, start_thread
from strandline.log.open_state import closed_log
from strandline.log.store import Placement
from strandline.values import Durability, UnavailableError

R = TypeVar("R")

_APPLIED = Durability.APPLIED


class LoopThread:
    """Runs coroutines for callers outside its loop. Any thread may use it.

    Create the client in a coroutine passed to `run`, so that it belongs to this loop.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._loop = asyncio.new_event_loop()
        # Reentrant: garbage collection while it is held may start work, too.
        self._lock = threading.RLock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="strandline-loop", daemon=True)
        start_thread(self._thread)

    def run(self, work: Coroutine[Any, Any, R], timeout_s: float | None = None) -> R:
        """Return the coroutine's result; this is how a blocking call of the port waits.

        UnavailableError when the time is up; the coroutine is cancelled then.
        """
        future = self.start(work)
        if not _done_within(self._clock, future, timeout_s):
            future.cancel()
            raise UnavailableError("the store did not answer in time", timeout_s=timeout_s)
        return _result(future)

    def append(
        self,
        work: Coroutine[Any, Any, Placement],
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool,
    ) -> "LoopOutcome":
        """Return the outcome of an append that has reached `level` once the coroutine returns.

        `level` is the highest of the store, whatever the caller asked for. With `may_wait`
        this returns then; without, at once.
        """
        outcome = LoopOutcome(self.start(work), level, self._clock)
        if may_wait:
            outcome.wait(level, timeout_s)
        return outcome

    def close(self) -> None:
        """Cancel running coroutines, and end the thread. May be repeated."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def start(self, work: Coroutine[Any, Any, R]) -> "Future[R]":
        """Run a coroutine, and return its future; this does not block."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise closed_log()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, action: Callable[[], object]) -> None:
        """Call this on the loop, which is cheaper than a coroutine; this does not block."""
        with self._lock:
            if self._is_closed:
                raise closed_log()
            self._loop.call_soon_threadsafe(action)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            # When the loop stops, the runner cancels what still runs, and closes the loop.
            runner.get_loop().run_forever()


class LoopOutcome:
    """Implements Outcome for an append that is a coroutine on another loop."""

    def __init__(self, future: "Future[Placement]", level: Durability, clock: Clock) -> None:
        self._future = future
        self._level = level
        self._clock = clock

    @property
    def is_settled(self) -> bool:
        """See Outcome."""
        return self._future.done()

    @property
    def level(self) -> Durability | None:
        """See Outcome."""
        future = self._future
        if not future.done() or future.cancelled() or future.exception() is not None:
            return None
        return self._level

    def result(self) -> Placement:
        """See Outcome."""
        if not self._future.done():
            raise UnavailableError("the outcome is still open, wait for the receipt")
        return _result(self._future)

    def wait(self, level: Durability = _APPLIED, timeout_s: float | None = None) -> Placement:
        """See Outcome."""
        if not _done_within(self._clock, self._future, timeout_s):
            raise _not_yet(level)
        return _result(self._future)

    async def wait_on_loop(
        self, level: Durability = _APPLIED, timeout_s: float | None = None
    ) -> Placement:
        """See Outcome."""
        try:
            async with asyncio.timeout(timeout_s):
                # Shielded: other tasks may wait for the same future.
                return await asyncio.shield(asyncio.wrap_future(self._future))
        except TimeoutError:
            raise _not_yet(level) from None
        except asyncio.CancelledError:
            if self._future.cancelled():
                raise closed_log() from None
            raise


def _done_within(clock: Clock, future: "Future[Any]", timeout_s: float | None) -> bool:
    if future.done():
        return True
    done = Latch()
    future.add_done_callback(lambda _: done.set())
    return clock.wait(done, timeout_s)


def _result(future: "Future[R]") -> R:
    try:
        return future.result()
    except CancelledError:
        raise closed_log() from None


def _not_yet(level: Durability) -> UnavailableError:
    return UnavailableError(f"the append was sent but is not {level.name.lower()} yet, wait again")
