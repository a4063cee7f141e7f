"""Waking, polling, closing and cancelling, with the blocking and the async wait."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Collection, Iterator
from types import FrameType
from typing import Any

import pytest

from strandline.log import Hint
from strandline.subscriptions import AsyncSubscription, Subscription, subscribe
from strandline.subscriptions.pages import POLL_S
from strandline.testing import FakeClock
from strandline.values import (
    ClosedError,
    InvalidError,
    Offset,
    Partition,
    Record,
    TrimmedError,
)
from tests.subscriptions.doubles import (
    PATIENCE_S,
    SteeredLog,
    drain,
    fill,
    lose_all,
    places,
    take,
)
from tests.threads import on_thread


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def still(clock: FakeClock) -> Iterator[SteeredLog]:
    """A log with a stopped clock: a reader can only be woken by a hint."""
    log = SteeredLog(clock=clock)
    log.create_topic("orders", partitions=2)
    yield log
    log.inner.close()


@pytest.fixture
def steered() -> Iterator[SteeredLog]:
    log = SteeredLog()
    log.create_topic("orders", partitions=2)
    yield log
    log.inner.close()


def test_a_hint_wakes_a_thread(still: SteeredLog, clock: FakeClock) -> None:
    log = still.as_log()
    subscription = subscribe(log, "orders", clock=clock)
    reader = on_thread(lambda: next(subscription))
    clock.wait_for_waiters(1)

    fill(log, "orders", 1, 1)

    assert places([reader.result(PATIENCE_S)]) == [(1, 0)]


def test_a_hint_wakes_a_task(still: SteeredLog, clock: FakeClock) -> None:
    log = still.as_log()

    async def tail() -> list[Record]:
        found = []
        async for record in AsyncSubscription(subscribe(log, "orders", clock=clock)):
            found.append(record)
            if len(found) == 3:
                break
        return found

    async def main() -> list[Record]:
        async with asyncio.timeout(PATIENCE_S):
            tailing = asyncio.create_task(tail())
            for _ in range(3):
                await breathe()
                fill(log, "orders", 0, 1)
            return await tailing

    assert places(asyncio.run(main())) == [(0, 0), (0, 1), (0, 2)]


def test_a_lost_hint_costs_time_only(still: SteeredLog, clock: FakeClock) -> None:
    """WE7, E7: what no hint announced is found by the next poll, and nothing is jumped over."""
    still.steer = lose_all
    log = still.as_log()
    subscription = subscribe(log, "orders", clock=clock)
    reader = on_thread(lambda: next(subscription))
    clock.wait_for_waiters(1)

    fill(log, "orders", 0, 1)
    clock.wait_for_waiters(1)
    was_done = reader.done()
    clock.advance(POLL_S)

    assert not was_done
    assert places([reader.result(PATIENCE_S)]) == [(0, 0)]


def test_a_lost_hint_is_made_up_for_also_while_another_partition_is_busy(
    still: SteeredLog, clock: FakeClock
) -> None:
    """WE7."""

    def only_of_partition_0(hints: Collection[Hint]) -> Collection[Hint]:
        return [hint for hint in hints if hint.partition == 0]

    still.steer = only_of_partition_0
    log = still.as_log()
    subscription = subscribe(log, "orders", clock=clock, read_ahead=4)
    drain(subscription)
    fill(log, "orders", 0, 100)
    take(subscription, 1)
    fill(log, "orders", 1, 1)

    before = places(take(subscription, 20))
    clock.advance(POLL_S)
    after = places(take(subscription, 20))

    assert (1, 0) not in before
    assert (1, 0) in after


def test_what_was_appended_before_is_found_without_hints_and_time(
    still: SteeredLog, clock: FakeClock
) -> None:
    """S2."""
    still.steer = lose_all
    log = still.as_log()
    subscription = subscribe(log, "orders", clock=clock)
    assert subscription.next(0.0) is None

    fill(log, "orders", 0, 1)

    assert places([subscription.next(0.0)]) == [(0, 0)]


def test_what_was_appended_before_is_found_although_another_partition_is_hinted_at(
    still: SteeredLog, clock: FakeClock
) -> None:
    """S2."""

    def of_partition_0(hints: Collection[Hint]) -> Collection[Hint]:
        return [hint._replace(partition=Partition(0), end=Offset(0)) for hint in hints]

    still.steer = of_partition_0
    log = still.as_log()
    subscription = subscribe(log, "orders", clock=clock)
    assert subscription.next(0.0) is None

    fill(log, "orders", 1, 1)

    assert places([subscription.next(0.0)]) == [(1, 0)]


def test_hints_that_lie_and_repeat_do_no_harm(still: SteeredLog, clock: FakeClock) -> None:
    def boast(hints: Collection[Hint]) -> Collection[Hint]:
        return [hint._replace(end=Offset(hint.end + 50)) for hint in hints] + [
            hint._replace(end=Offset(hint.end - 1)) for hint in hints
        ]

    still.steer = boast
    log = still.as_log()
    subscription = subscribe(log, "orders", clock=clock, partitions=[0])
    found = []
    for _ in range(20):
        fill(log, "orders", 0, 2)
        found += drain(subscription)

    assert places(found) == [(0, n) for n in range(40)]


def test_an_idle_reader_looks_once_for_each_poll(still: SteeredLog, clock: FakeClock) -> None:
    looks: list[int] = []
    still.after_marks = looks.append
    subscription = subscribe(still.as_log(), "orders", clock=clock, partitions=[0])
    reader = on_thread(lambda: next(subscription, None))
    clock.wait_for_waiters(1)
    before = len(looks)

    for _ in range(10):
        clock.advance(POLL_S)
        clock.wait_for_waiters(1)
    subscription.close()
    reader.result(PATIENCE_S)

    assert len(looks) - before == 10
    assert still.reads == 0


@pytest.mark.parametrize("moment", ["after_marks", "after_read"])
def test_records_appended_between_the_look_and_the_rest_are_seen(
    still: SteeredLog, clock: FakeClock, moment: str
) -> None:
    """A8: a reader that has just seen the end is not left blocked by what came meanwhile."""
    log = still.as_log()
    fill(log, "orders", 0, 1)
    left = [2]

    def append_meanwhile(partition: int) -> None:
        if left[0] and partition == 0:
            left[0] -= 1
            fill(still.inner, "orders", 0, 1)

    setattr(still, moment, append_meanwhile)
    subscription = subscribe(log, "orders", clock=clock, partitions=[0])

    found = on_thread(lambda: [next(subscription) for _ in range(3)]).result(PATIENCE_S)

    assert places(found) == [(0, 0), (0, 1), (0, 2)]


def test_a_close_ends_a_waiting_thread_at_once(still: SteeredLog, clock: FakeClock) -> None:
    """WE13."""
    subscription = subscribe(still.as_log(), "orders", clock=clock)
    loop = on_thread(lambda: list(subscription))
    clock.wait_for_waiters(1)

    subscription.close()

    assert loop.result(PATIENCE_S) == []
    assert still.watches_open == 0


def test_a_close_ends_a_waiting_next_with_an_error(still: SteeredLog, clock: FakeClock) -> None:
    subscription = subscribe(still.as_log(), "orders", clock=clock)
    waiting = on_thread(lambda: subscription.next(3600.0))
    clock.wait_for_waiters(1)

    subscription.close()

    with pytest.raises(ClosedError):
        waiting.result(PATIENCE_S)


def test_a_close_of_the_log_ends_a_thread_and_a_task(steered: SteeredLog) -> None:
    """WA7."""
    log = steered.as_log()
    fill(log, "orders", 0, 2)
    threaded, looped = subscribe(log, "orders"), subscribe(log, "orders")
    loop = on_thread(lambda: list(threaded))

    async def collect() -> list[Record]:
        async with asyncio.timeout(PATIENCE_S):
            return [record async for record in AsyncSubscription(looped)]

    task = on_thread(lambda: asyncio.run(collect()))
    fill(log, "orders", 1, 1)
    until_waiting(steered)
    steered.inner.close()

    assert len(loop.result(PATIENCE_S)) <= 3
    assert len(task.result(PATIENCE_S)) <= 3
    assert steered.watches_open == 0


def test_a_close_during_a_read_waits_for_nothing(steered: SteeredLog) -> None:
    """WE13: not even for the store."""
    log = steered.as_log()
    fill(log, "orders", 0, 1)
    entered, gate = threading.Event(), threading.Event()

    def hold(partition: int) -> None:
        entered.set()
        assert gate.wait(PATIENCE_S)

    steered.before_read = hold
    subscription = subscribe(log, "orders")
    loop = on_thread(lambda: list(subscription))
    assert entered.wait(PATIENCE_S)

    subscription.close()
    gate.set()

    assert len(loop.result(PATIENCE_S)) <= 1


@pytest.mark.parametrize("history", [0, 1, 5])
@pytest.mark.parametrize("steps", range(8))
def test_a_step_cancelled_anywhere_loses_nothing(
    steered: SteeredLog, history: int, steps: int
) -> None:
    """A task is cancelled after each possible number of turns of the loop; another continues."""
    log = steered.as_log()
    fill(log, "orders", 0, history)
    subscription = subscribe(log, "orders", partitions=[0], read_ahead=2)

    async def main() -> list[Record]:
        found: list[Record] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < history + 6:
                step = asyncio.ensure_future(anext(AsyncSubscription(subscription)))
                if len(found) >= history:
                    fill(log, "orders", 0, 1)
                for _ in range(steps):
                    await breathe()
                step.cancel()
                await asyncio.wait([step])
                if not step.cancelled():
                    found.append(step.result())
                elif steps < 4:
                    found.append(await anext(AsyncSubscription(subscription)))
        return found

    assert places(asyncio.run(main())) == [(0, n) for n in range(history + 6)]
    subscription.close()
    assert steered.watches_open == 0


def test_hints_taken_by_a_cancelled_wait_are_made_up_for(
    still: SteeredLog, clock: FakeClock
) -> None:
    """WE7: the next step looks for itself, and need not wait for a poll."""
    log = still.as_log()
    subscription = subscribe(log, "orders", partitions=[0], clock=clock)
    interrupt = [True]

    def interrupted(hints: Collection[Hint]) -> Collection[Hint]:
        if interrupt.pop():
            raise KeyboardInterrupt
        return hints

    still.watches[0].steer = interrupted
    waiting = on_thread(lambda: subscription.next(3600.0))
    clock.wait_for_waiters(1)
    fill(log, "orders", 0, 1)

    with pytest.raises(KeyboardInterrupt):
        waiting.result(PATIENCE_S)
    assert places([on_thread(lambda: next(subscription)).result(PATIENCE_S)]) == [(0, 0)]


def test_a_failed_step_leaves_the_stream_where_it_was(still: SteeredLog, clock: FakeClock) -> None:
    """Who tries again meets the error or the record at once, and waits for no poll."""
    log = still.as_log()
    fill(log, "orders", 0, 4)
    subscription = subscribe(log, "orders", partitions=[0], read_ahead=2, clock=clock)
    found = take(subscription, 2)

    def fail(partition: int) -> None:
        raise TrimmedError(0)

    still.before_read = fail
    for _ in range(3):
        with pytest.raises(TrimmedError):
            on_thread(lambda: next(subscription)).result(PATIENCE_S)
    still.before_read = lambda partition: None

    assert places([*found, *drain(subscription)]) == [(0, n) for n in range(4)]


@pytest.mark.parametrize("line", range(1, 60))
def test_an_interrupt_at_any_line_of_a_take_repeats_and_reorders_nothing(
    steered: SteeredLog, line: int
) -> None:
    """Only the record of the interrupted step may be missing."""
    log = steered.as_log()
    fill(log, "orders", 0, 6)
    subscription = subscribe(log, "orders", partitions=[0], read_ahead=3)
    found = take(subscription, 1)

    with interrupt_at(line), contextlib.suppress(KeyboardInterrupt):
        while len(found) < 4:
            found += take(subscription, 1)
    found += drain(subscription)

    offsets = [offset for _, offset in places(found)]
    assert offsets == sorted(set(offsets))
    assert len(offsets) >= 5
    assert offsets[-1] == 5


def test_a_long_history_does_not_hold_the_loop(steered: SteeredLog) -> None:
    """S5: another task gets its turn at each page."""
    log = steered.as_log()
    fill(log, "orders", 0, 1000)
    turns = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await breathe()

    async def main() -> None:
        other = asyncio.create_task(count())
        with subscribe(log, "orders", partitions=[0], read_ahead=10) as subscription:
            for _ in range(1000):
                await anext(AsyncSubscription(subscription))
        other.cancel()

    asyncio.run(main())

    assert turns[0] >= 90


def test_only_one_reads_at_a_time(still: SteeredLog, clock: FakeClock) -> None:
    subscription = subscribe(still.as_log(), "orders", clock=clock)
    waiting = on_thread(lambda: next(subscription))
    clock.wait_for_waiters(1)

    with pytest.raises(InvalidError):
        subscription.next(0.0)
    with pytest.raises(InvalidError):
        asyncio.run(next_of(subscription))
    fill(still.as_log(), "orders", 0, 1)

    assert places([waiting.result(PATIENCE_S)]) == [(0, 0)]


def test_for_and_async_for_take_from_the_same_stream(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 6)
    subscription = subscribe(log, "orders")
    found = [next(subscription)]

    found.append(asyncio.run(next_of(subscription)))
    found.append(next(subscription))
    found.append(asyncio.run(next_of(subscription)))

    assert places(found) == [(0, n) for n in range(4)]


def test_a_timeout_ends_a_wait(still: SteeredLog, clock: FakeClock) -> None:
    subscription = subscribe(still.as_log(), "orders", clock=clock)
    waiting = on_thread(lambda: subscription.next(2.5))
    for _ in range(5):
        clock.wait_for_waiters(1)
        clock.advance(0.5)

    assert waiting.result(PATIENCE_S) is None


@pytest.mark.slow
def test_a_slow_reader_holds_no_writer_up(steered: SteeredLog) -> None:
    """S5: a reader stuck in the store, and one that never comes back."""
    log = steered.as_log()
    fill(log, "orders", 0, 1)
    idle = subscribe(log, "orders")
    entered, gate = threading.Event(), threading.Event()

    def hold(partition: int) -> None:
        entered.set()
        assert gate.wait(PATIENCE_S)

    steered.before_read = hold
    stuck = subscribe(log, "orders")
    reader = on_thread(lambda: next(stuck))
    assert entered.wait(PATIENCE_S)

    on_thread(lambda: fill(log, "orders", 0, 10_000)).result(PATIENCE_S)
    gate.set()

    assert places([reader.result(PATIENCE_S)]) == [(0, 0)]
    assert len(drain(idle)) == 10_001


@contextlib.contextmanager
def interrupt_at(line: int) -> Iterator[None]:
    """Raise KeyboardInterrupt at the n-th line that runs in the modules of a take."""
    left = [line]

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.endswith(("pages.py", "cursor.py")):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)


async def next_of(subscription: Subscription[Any]) -> Record:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(AsyncSubscription(subscription))


async def breathe() -> None:
    await asyncio.sleep(0)


def until_waiting(steered: SteeredLog) -> None:
    """Return once both subscriptions have begun to read."""
    for watch in steered.watches:
        assert watch.entered.wait(PATIENCE_S)
