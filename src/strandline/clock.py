"""The only module that accesses time, randomness and fresh ids.

`SystemClock` is the real one; `strandline.testing.FakeClock` is advanced by tests.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from strandline.locks import Latch, Signal, start_thread


class Timer(Protocol):
    """An action that has not run yet."""

    def cancel(self) -> None:
        """Prevent the action from running; no effect once it has begun."""


class Clock(Protocol):
    """Time, randomness and ids. All methods may be called from any thread."""

    def now_us(self) -> int:
        """Return the wall clock in microseconds since the epoch. It may go back."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment. It never goes back."""

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """Run `action` once, in another thread, after `delay_s`, unless cancelled.

        Does not keep the process alive, and does not run in the child of a fork.
        """

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        """Return True once `event` is set, False if `timeout_s` passed before.

        Only this waiter may use the event. A timeout of None waits for ever.
        """

    def new_id(self) -> uuid.UUID:
        """Return a UUIDv7, greater than every earlier one of this process."""

    def random_bytes(self, count: int) -> bytes:
        """Return cryptographically random bytes."""


def deadline_in(clock: Clock, timeout_s: float | None) -> float | None:
    """Return the deadline after this many seconds; None if there is no limit."""
    return None if timeout_s is None else clock.monotonic() + timeout_s


def seconds_left(clock: Clock, deadline: float | None) -> float | None:
    """Return the time until a deadline, 0 if it has passed; None if there is none."""
    return None if deadline is None else max(0.0, deadline - clock.monotonic())


def has_passed(clock: Clock, deadline: float | None) -> bool:
    """Whether there is a deadline, and it has passed."""
    return deadline is not None and clock.monotonic() >= deadline


_TAIL_BITS = 74
_TAIL_END = 1 << _TAIL_BITS
_STEP_BYTES = 4


class RisingIds:
    """Makes UUIDv7s that rise even when the wall clock stops or goes back.

    The 74 bits after the milliseconds are random at first; within a millisecond
    they grow by random steps, and when they run out a millisecond is borrowed.
    """

    def __init__(self, now_us: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._now_us = now_us
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._ms = 0
        self._tail = _TAIL_END

    def next(self) -> uuid.UUID:
        """Return the next id."""
        with self._lock:
            now_ms = self._now_us() // 1000
            step = 1 + int.from_bytes(self._random_bytes(_STEP_BYTES), "big")
            if now_ms > self._ms:
                self._begin(now_ms)
            elif self._tail + step < _TAIL_END:
                self._tail += step
            else:
                self._begin(self._ms + 1)
            return _uuid7(self._ms, self._tail)

    def after_fork(self) -> None:
        """Replace the parent's ids, and a lock that no thread of the child would release."""
        self._lock = threading.Lock()
        self._tail = _TAIL_END

    def _begin(self, ms: int) -> None:
        self._ms = ms
        # The upper half of the range stays free, so that steps rarely run out.
        self._tail = int.from_bytes(self._random_bytes(10), "big") >> (80 - _TAIL_BITS + 1)


def _uuid7(ms: int, tail: int) -> uuid.UUID:
    high, low = tail >> 62, tail & ((1 << 62) - 1)
    return uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low)


def _wall_us() -> int:
    return time.time_ns() // 1000


# One for the process, so that ids rise across all clocks in it.
_ids = RisingIds(_wall_us, os.urandom)
os.register_at_fork(after_in_child=_ids.after_fork)


class _SystemTimer(threading.Thread):
    """Like `threading.Timer`, but safe if an interrupt comes in `cancel`."""

    def __init__(self, delay_s: float, action: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._delay_s = max(0.0, delay_s)
        self._action = action
        self._is_cancelled = Latch()

    def cancel(self) -> None:
        """See Timer."""
        self._is_cancelled.set()

    def run(self) -> None:
        if not self._is_cancelled.wait(self._delay_s):
            self._action()


class SystemClock:
    """The machine's own clock. Nothing to close; usable after a fork."""

    # Each append reads both, the second one twice: a Python method would be slower.
    now_us: "staticmethod[[], int]" = staticmethod(_wall_us)
    monotonic: "staticmethod[[], float]" = staticmethod(time.monotonic)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """See Clock."""
        timer = _SystemTimer(delay_s, action)
        start_thread(timer)
        return timer

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        """See Clock."""
        return event.wait(timeout_s)

    def new_id(self) -> uuid.UUID:
        """See Clock."""
        return _ids.next()

    def random_bytes(self, count: int) -> bytes:
        """See Clock."""
        return os.urandom(count)
