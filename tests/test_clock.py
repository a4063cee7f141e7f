"""The clock: what every clock does, and what the real one does."""

import os
import threading
from collections.abc import Callable
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.clock import Clock, RisingIds, SystemClock
from strandline.testing import FakeClock

PATIENCE_S = 10


@pytest.fixture(params=[SystemClock, FakeClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    make: Callable[[], Clock] = request.param
    return make()


def test_a_wait_for_an_event_that_is_set_returns_at_once(clock: Clock) -> None:
    event = threading.Event()
    event.set()

    assert clock.wait(event, None)
    assert clock.wait(event, 0)
    assert event.is_set()


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_a_wait_without_time_returns_false(clock: Clock, timeout_s: float) -> None:
    assert not clock.wait(threading.Event(), timeout_s)


def test_a_wait_ends_when_another_thread_sets_the_event(clock: Clock) -> None:
    event = threading.Event()
    outcomes: list[bool] = []
    waiter = threading.Thread(target=lambda: outcomes.append(clock.wait(event, 3600)))
    waiter.start()

    event.set()
    waiter.join(PATIENCE_S)

    assert outcomes == [True]


def test_ids_are_rising_uuids_of_version_7(clock: Clock) -> None:
    ids = [clock.new_id() for _ in range(2000)]

    assert ids == sorted(set(ids))
    assert all(each.version == 7 and each.variant == RFC_4122 for each in ids)


def test_an_id_begins_with_the_wall_clock(clock: Clock) -> None:
    before_ms = clock.now_us() // 1000

    first = RisingIds(clock.now_us, clock.random_bytes).next()

    assert before_ms <= first.int >> 80 <= clock.now_us() // 1000


def test_ids_made_by_many_threads_are_all_different(clock: Clock) -> None:
    made: list[list[UUID]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda own=own: own.extend(clock.new_id() for _ in range(500)))
        for own in made
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert all(own == sorted(own) for own in made)
    assert len({each for own in made for each in own}) == 2000


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 2**48 - 10_000), min_size=2, max_size=50),
    st.integers(0, 255),
    st.sets(st.integers(0, 49)),
)
def test_ids_rise_whatever_the_wall_clock_the_dice_and_forks_do(
    moments_ms: list[int], byte: int, forks: set[int]
) -> None:
    remaining = iter(moments_ms)
    ids = RisingIds(lambda: next(remaining) * 1000, lambda count: bytes([byte]) * count)

    made = []
    for number in range(len(moments_ms)):
        if number in forks:
            ids.after_fork()
        made.append(ids.next())

    assert made == sorted(set(made))
    assert all(each.version == 7 and each.variant == RFC_4122 for each in made)


def test_ids_work_after_a_fork_that_caught_another_thread_making_one() -> None:
    caught, release = threading.Event(), threading.Event()

    def slow_once(count: int) -> bytes:
        if not caught.is_set():
            caught.set()
            release.wait(PATIENCE_S)
        return bytes(count)

    ids = RisingIds(lambda: 5_000, slow_once)
    other = threading.Thread(target=ids.next)
    other.start()
    caught.wait(PATIENCE_S)

    ids.after_fork()
    own = ids.next()

    assert own.version == 7
    assert other.is_alive()
    release.set()
    other.join(PATIENCE_S)


# Later Pythons warn of a fork while a thread of an earlier test is still ending.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_makes_ids_of_its_own() -> None:
    clock = SystemClock()
    before = clock.new_id()
    read_end, write_end = os.pipe()

    child = os.fork()
    if child == 0:
        os.write(write_end, clock.new_id().bytes)
        os._exit(0)
    os.waitpid(child, 0)
    children = UUID(bytes=os.read(read_end, 16))
    os.close(read_end)
    os.close(write_end)

    own = clock.new_id()
    assert children > before
    assert own > before
    assert children != own


def test_random_bytes_come_in_the_count_requested(clock: Clock) -> None:
    assert len(clock.random_bytes(0)) == 0
    assert len(clock.random_bytes(16)) == 16
    assert clock.random_bytes(16) != clock.random_bytes(16)


def test_the_real_wall_clock_counts_microseconds_in_this_century() -> None:
    assert 1_700_000_000_000_000 < SystemClock().now_us() < 4_102_444_800_000_000


def test_real_monotonic_time_does_not_go_back() -> None:
    clock = SystemClock()
    moments = [clock.monotonic() for _ in range(1000)]

    assert moments == sorted(moments)


def test_a_real_timer_runs_its_action_once_on_another_thread() -> None:
    threads: list[threading.Thread] = []
    done = threading.Event()

    def action() -> None:
        threads.append(threading.current_thread())
        done.set()

    SystemClock().call_later(0, action)

    assert done.wait(PATIENCE_S)
    assert threads != [threading.current_thread()]
    assert threads[0].daemon


def test_a_cancelled_real_timer_ends_without_its_action() -> None:
    ran = threading.Event()
    before = set(threading.enumerate())
    timer = SystemClock().call_later(3600, ran.set)
    (thread,) = set(threading.enumerate()) - before

    timer.cancel()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    assert not ran.is_set()
