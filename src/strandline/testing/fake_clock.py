"""A clock that a test advances."""

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import shake_256
from uuid import UUID

from strandline.clock import RisingIds, Timer
from strandline.locks import Signal
from strandline.values import InvalidError
from strandline.values.arguments import check_seconds, check_whole, whole
from strandline.values.prompt import prompt_text

_NS_PER_S = 1_000_000_000
_TIMEOUT_S = 10.0
_POLL_S = 0.002


@dataclass(order=True)
class _FakeTimer:
    due_ns: int
    number: int
    action: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


@dataclass(eq=False)
class _Waiter:
    event: threading.Event | Signal
    due_ns: int | None


class FakeClock:
    """A Clock whose time only moves with `advance`.

    Ids and random bytes follow from `seed`. Real time matters only for timeouts: a
    thread that does not arrive or leave within ten seconds is an AssertionError.
    """

    def __init__(self, *, now_us: int = 1_700_000_000_000_000, seed: int = 0) -> None:
        self._changed = threading.Condition()
        self._ns = 0
        self._wall_us = _now(now_us)
        self._timers: list[_FakeTimer] = []
        self._numbers = itertools.count()
        self._waiters: set[_Waiter] = set()
        self._seed = check_whole("seed", seed)
        self._draws = itertools.count()
        self._ids = RisingIds(self.now_us, self.random_bytes)

    def __repr__(self) -> str:
        return prompt_text("FakeClock", now_us=self._wall_us, seed=self._seed)

    def now_us(self) -> int:
        """See Clock."""
        with self._changed:
            return self._wall_us + self._ns // 1000

    def set_now_us(self, now_us: int) -> None:
        """Set the wall clock, back or forward; monotonic time and timers do not change."""
        moved_us = _now(now_us)
        with self._changed:
            self._wall_us = moved_us - self._ns // 1000

    def monotonic(self) -> float:
        """See Clock."""
        with self._changed:
            return self._ns / _NS_PER_S

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """See Clock. The action runs inside `advance`, in the thread that calls it."""
        with self._changed:
            timer = _FakeTimer(self._ns + _ns(delay_s), next(self._numbers), action)
            heapq.heappush(self._timers, timer)
            return timer

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        """See Clock."""
        if timeout_s is not None and timeout_s <= 0:
            return event.is_set()
        with self._changed:
            due_ns = None if timeout_s is None else self._ns + _ns(timeout_s)
            waiter = _Waiter(event, due_ns)
            self._waiters.add(waiter)
            self._changed.notify_all()
        try:
            # Setting the event would wake it sooner, but could not be distinguished from the
            # owner's own set; so it polls, in real time.
            while not event.wait(_POLL_S):
                if self._is_over(waiter):
                    return event.is_set()
            return True
        finally:
            with self._changed:
                self._waiters.discard(waiter)
                self._changed.notify_all()

    def new_id(self) -> UUID:
        """See Clock."""
        return self._ids.next()

    def random_bytes(self, count: int) -> bytes:
        """See Clock; these bytes are predictable."""
        with self._changed:
            return shake_256(f"{self._seed}:{next(self._draws)}".encode()).digest(count)

    def advance(self, seconds: float) -> None:
        """Advance the time, run due timers and end due waits, in order.

        Each timer sees the time at which it was due, and runs after every waiter due by
        then has left `wait`. All due waiters have left when this returns.
        """
        seconds = check_seconds("seconds", seconds)
        with self._changed:
            end_ns = self._ns + _ns(seconds)
        while timer := self._next_due(end_ns):
            self._move_to(timer.due_ns)
            # A waiter that has just woken may have cancelled it.
            if not timer.cancelled:
                timer.action()
        self._move_to(end_ns)

    def wait_for_waiters(self, count: int) -> None:
        """Return once at least `count` threads are inside `wait` without a reason to wake."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: self.waiting >= count, _TIMEOUT_S)
            assert arrived, f"too few threads wait on the clock: {self.waiting} of {count}"

    @property
    def waiting(self) -> int:
        """How many threads are inside `wait` without a reason to wake."""
        with self._changed:
            return sum(not waiter.event.is_set() for waiter in self._waiters)

    @property
    def pending_timers(self) -> int:
        """How many timers have neither run nor been cancelled."""
        with self._changed:
            return sum(not timer.cancelled for timer in self._timers)

    def _next_due(self, end_ns: int) -> _FakeTimer | None:
        with self._changed:
            while self._timers and self._timers[0].due_ns <= end_ns:
                timer = heapq.heappop(self._timers)
                if not timer.cancelled:
                    return timer
            return None

    def _move_to(self, ns: int) -> None:
        with self._changed:
            self._ns = max(self._ns, ns)
            left = self._changed.wait_for(self._none_is_due, _TIMEOUT_S)
            assert left, "a due waiter did not leave the clock"

    def _is_over(self, waiter: _Waiter) -> bool:
        with self._changed:
            return waiter.due_ns is not None and waiter.due_ns <= self._ns

    def _none_is_due(self) -> bool:
        return not any(self._is_over(waiter) for waiter in self._waiters)


def _now(now_us: object) -> int:
    number = whole(now_us)
    if number is None:
        raise InvalidError("now_us is a whole number of microseconds", now_us=now_us)
    return number


def _ns(seconds: float) -> int:
    # Whole nanoseconds, so that ten steps of 0.1 make exactly one second.
    return max(0, round(seconds * _NS_PER_S))
