"""The fake clock: time moves only when told to."""

import threading

import pytest

from strandline.clock import Clock
from strandline.testing import FakeClock

PATIENCE_S = 10


def test_time_stands_still_until_it_is_advanced() -> None:
    clock: Clock = FakeClock(now_us=5_000_000)

    assert clock.now_us() == clock.now_us() == 5_000_000
    assert clock.monotonic() == clock.monotonic() == 0.0


def test_advancing_moves_the_wall_clock_and_monotonic_time_together() -> None:
    clock = FakeClock(now_us=5_000_000)

    clock.advance(1.5)

    assert clock.now_us() == 6_500_000
    assert clock.monotonic() == 1.5


def test_many_small_steps_make_one_large_one_exactly() -> None:
    clock, ran = FakeClock(), threading.Event()
    clock.call_later(20.5, ran.set)

    for _ in range(10):
        clock.advance(2.05)

    assert ran.is_set()
    assert clock.monotonic() == 20.5


def test_setting_the_wall_clock_back_moves_neither_monotonic_time_nor_timers() -> None:
    clock, ran = FakeClock(now_us=5_000_000), threading.Event()
    clock.advance(2)
    clock.call_later(1, ran.set)

    clock.set_now_us(1_000_000)

    assert clock.now_us() == 1_000_000
    assert clock.monotonic() == 2.0
    assert not ran.is_set()
    clock.advance(1)
    assert clock.now_us() == 2_000_000
    assert ran.is_set()


def test_due_timers_run_in_order_in_the_calling_thread_each_at_its_own_moment() -> None:
    clock = FakeClock()
    seen: list[tuple[str, float, threading.Thread]] = []

    def note(name: str) -> None:
        seen.append((name, clock.monotonic(), threading.current_thread()))

    clock.call_later(3, lambda: note("late"))
    clock.call_later(1, lambda: note("first"))
    clock.call_later(1, lambda: note("second"))
    clock.call_later(5, lambda: note("never"))

    clock.advance(4)

    here = threading.current_thread()
    assert seen == [("first", 1.0, here), ("second", 1.0, here), ("late", 3.0, here)]
    assert clock.monotonic() == 4.0
    assert clock.pending_timers == 1


def test_a_timer_set_by_a_timer_runs_in_the_same_advance_if_it_is_due() -> None:
    clock = FakeClock()
    moments: list[float] = []

    def tick() -> None:
        moments.append(clock.monotonic())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3.5)

    assert moments == [1.0, 2.0, 3.0]


def test_a_cancelled_timer_does_not_run() -> None:
    clock, ran = FakeClock(), threading.Event()
    timer = clock.call_later(1, ran.set)

    timer.cancel()
    clock.advance(2)

    assert not ran.is_set()
    assert clock.pending_timers == 0


def test_an_error_in_a_timer_reaches_the_test_and_later_timers_still_run() -> None:
    clock, ran = FakeClock(), threading.Event()
    clock.call_later(1, raise_an_error)
    clock.call_later(2, ran.set)

    with pytest.raises(ZeroDivisionError):
        clock.advance(3)
    clock.advance(3)

    assert ran.is_set()


def start_waiter(
    clock: FakeClock, event: threading.Event, timeout_s: float | None
) -> tuple[threading.Thread, list[bool]]:
    outcomes: list[bool] = []
    thread = threading.Thread(target=lambda: outcomes.append(clock.wait(event, timeout_s)))
    thread.start()
    return thread, outcomes


def test_advancing_past_its_timeout_ends_a_wait_with_false_and_leaves_the_event_alone() -> None:
    clock, event = FakeClock(), threading.Event()
    thread, outcomes = start_waiter(clock, event, 5)
    clock.wait_for_waiters(1)

    clock.advance(4.999)
    assert thread.is_alive()
    clock.advance(0.001)
    thread.join(PATIENCE_S)

    assert outcomes == [False]
    assert not event.is_set()


def test_only_due_waits_end() -> None:
    clock = FakeClock()
    short, short_outcomes = start_waiter(clock, threading.Event(), 1)
    long_event, endless_event = threading.Event(), threading.Event()
    long, long_outcomes = start_waiter(clock, long_event, 10)
    endless, endless_outcomes = start_waiter(clock, endless_event, None)
    clock.wait_for_waiters(3)

    clock.advance(2)
    short.join(PATIENCE_S)

    assert short_outcomes == [False]
    clock.wait_for_waiters(2)
    long_event.set()
    endless_event.set()
    long.join(PATIENCE_S)
    endless.join(PATIENCE_S)
    assert long_outcomes == endless_outcomes == [True]


def test_a_due_waiter_has_left_before_a_later_timer_runs() -> None:
    clock = FakeClock()
    thread, outcomes = start_waiter(clock, threading.Event(), 1)
    clock.wait_for_waiters(1)
    waiting_at_timer: list[int] = []
    clock.call_later(2, lambda: waiting_at_timer.append(clock.waiting))

    clock.advance(3)
    thread.join(PATIENCE_S)

    assert waiting_at_timer == [0]
    assert outcomes == [False]


def test_a_due_waiter_has_left_when_advance_returns() -> None:
    clock = FakeClock()
    thread, _ = start_waiter(clock, threading.Event(), 1)
    clock.wait_for_waiters(1)

    clock.advance(1)

    assert clock.waiting == 0
    thread.join(PATIENCE_S)


def test_a_timer_may_set_the_event_that_a_thread_waits_for() -> None:
    clock, event = FakeClock(), threading.Event()
    thread, outcomes = start_waiter(clock, event, 5)
    clock.wait_for_waiters(1)
    clock.call_later(1, event.set)

    clock.advance(1)
    thread.join(PATIENCE_S)

    assert outcomes == [True]


def test_too_few_waiters_are_an_assertion_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.testing.fake_clock._TIMEOUT_S", 0.01)

    with pytest.raises(AssertionError, match="0 of 1"):
        FakeClock().wait_for_waiters(1)


def test_ids_and_random_bytes_follow_from_the_seed() -> None:
    first, again, other = FakeClock(seed=1), FakeClock(seed=1), FakeClock(seed=2)

    drawn = [(clock.new_id(), clock.random_bytes(8)) for clock in (first, again, other)]

    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_ids_rise_when_the_wall_clock_is_set_back() -> None:
    clock = FakeClock()
    before = clock.new_id()

    clock.set_now_us(0)

    assert clock.new_id() > before


def raise_an_error() -> None:
    raise ZeroDivisionError
