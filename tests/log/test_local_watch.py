"""A reader that is surely blocked is woken by each thing that should wake it."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from strandline.log import Log, Watch
from strandline.log.follower import PartitionFollower
from strandline.log.local_watch import LocalWatch
from strandline.log.loop_tail import LoopTail
from strandline.testing import FakeClock
from strandline.testing.conformance_checks import started
from strandline.values import ClosedError, Event, InvalidError
from strandline.writes.waiter import LoopWaiter
from tests.logs import file_log, memory_log

PATIENCE_S = 10.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[Log]:
    with memory_log(clock=clock) as log:
        log.create_topic("orders", partitions=2)
        yield log


@pytest.fixture
def watch(log: Log) -> LocalWatch:
    watch = log.watch()
    assert isinstance(watch, LocalWatch)
    watch.add("orders", 0, 0)
    return watch


def test_an_append_wakes_it(log: Log, watch: LocalWatch, clock: FakeClock) -> None:
    sleeping = started(watch.wait)
    clock.wait_for_waiters(1)

    log.append("orders", Event("a"), partition=1)
    log.append("orders", Event("a"), partition=0)

    (hint,) = sleeping.result(PATIENCE_S)
    assert (hint.partition, hint.end) == (0, 1)


def test_wake_wakes_it(watch: LocalWatch, clock: FakeClock) -> None:
    sleeping = started(watch.wait)
    clock.wait_for_waiters(1)

    watch.wake()

    assert not sleeping.result(PATIENCE_S)
    again = started(watch.wait)
    clock.wait_for_waiters(1)
    watch.wake()
    assert not again.result(PATIENCE_S)


def test_a_hint_is_given_once_and_not_for_what_was_seen(log: Log, watch: LocalWatch) -> None:
    log.append_many("orders", [Event("a")] * 5, partition=0)

    given = [len(watch.wait(0)) for _ in range(2)]
    watch.add("orders", 0, 3)
    watch.add("orders", 0, 5)

    assert given == [1, 0]
    assert not watch.wait(0)


class NothingComes:
    """A follower that finds nothing, and says how long it was let wait."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def wait(self, start: int, records_max: int, timeout_s: float) -> None:
        del start, records_max
        self.waited_s.append(timeout_s)

    def wake(self) -> None:
        pass


class NoNotices:
    """What no event loop can wait for."""

    def begin_loop(self) -> None:
        pass


def test_a_task_that_follows_is_woken_and_never_holds_its_loop(watch: LocalWatch) -> None:
    follower = NothingComes()
    watch.follow_by(cast("PartitionFollower", follower))

    async def follow() -> None:
        place: Any = NoNotices(), follower
        tail = LoopTail(asyncio.get_running_loop(), *place)
        waiter = LoopWaiter()

        async def once() -> object:
            async with asyncio.timeout(PATIENCE_S):
                return await watch.follow_on_loop(tail, waiter, 0, 1, 2 * PATIENCE_S)

        watch.wake()
        assert await once() is None
        waiting = asyncio.create_task(once())
        await asyncio.sleep(0)
        watch.wake()
        assert await waiting is None

    asyncio.run(follow())

    assert follower.waited_s == [0.0, 0.0, 0.0]


def test_its_time_wakes_it(watch: LocalWatch, clock: FakeClock) -> None:
    sleeping = started(lambda: watch.wait(5))
    clock.wait_for_waiters(1)

    clock.advance(5)

    assert not sleeping.result(PATIENCE_S)


def test_closing_wakes_it(log: Log, watch: LocalWatch, clock: FakeClock) -> None:
    actions: list[tuple[Watch, Callable[[], None]]] = [
        (watch, watch.close),
        (log.watch(), log.close),
    ]
    for each, close in actions:
        sleeping = started(each.wait)
        clock.wait_for_waiters(1)

        close()

        with pytest.raises(ClosedError):
            sleeping.result(PATIENCE_S)


def test_a_dropped_topic_wakes_it(log: Log, watch: LocalWatch, clock: FakeClock) -> None:
    sleeping = started(watch.wait)
    clock.wait_for_waiters(1)

    log.drop_topic("orders")

    (hint,) = sleeping.result(PATIENCE_S)
    assert hint.end == 0


def test_a_task_that_is_cancelled_leaves_the_hint_for_the_next(log: Log, watch: LocalWatch) -> None:
    async def cancel_then_wait() -> int:
        task = asyncio.ensure_future(watch.wait_on_loop())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        log.append("orders", Event("a"), partition=0)
        (hint,) = await watch.wait_on_loop(PATIENCE_S)
        return hint.end

    assert asyncio.run(cancel_then_wait()) == 1


def test_a_task_woken_for_nothing_waits_on_until_its_time_is_up(watch: LocalWatch) -> None:
    async def rouse_then_wait() -> list[int]:
        task = asyncio.ensure_future(watch.wait_on_loop(0.05))
        for _ in range(2):
            await asyncio.sleep(0)
            watch.wake_once()
            await asyncio.sleep(0)
        return [hint.end for hint in await task]

    assert started(lambda: asyncio.run(rouse_then_wait())).result(PATIENCE_S) == []


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), True, "1"])
def test_a_time_that_is_none_is_refused(watch: LocalWatch, timeout_s: float) -> None:
    with pytest.raises(InvalidError):
        watch.wait(timeout_s)
    with pytest.raises(InvalidError):
        asyncio.run(watch.wait_on_loop(timeout_s))


def test_a_reader_is_notified_beside_one_that_watches_nothing_yet(tmp_path: Path) -> None:
    with file_log(str(tmp_path / "log")) as log, file_log(str(tmp_path / "log")) as other:
        log.create_topic("orders")
        reader = log.watch()
        reader.add("orders", 0, 0)
        log.watch()

        other.append("orders", Event("a"))

        assert [hint.end for hint in reader.wait(PATIENCE_S)] == [1]
