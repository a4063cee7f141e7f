"""Followers of event loops: tasks, threads and loops at one tail, with no wake-up lost."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log, loop_tail
from strandline.log.loop_tail import LoopTail
from strandline.subscriptions import pages
from strandline.writes.waiter import LoopWaiter
from tests.core.plain import needs_core
from tests.logs import file_log
from tests.planting import Bug

pytestmark = [
    needs_core,
    pytest.mark.skipif(sys.platform != "linux", reason="notices of changed files are Linux's"),
]

PATIENCE_S = 60.0
FIRST = 2
COUNT = 200


@pytest.fixture(autouse=True)
def _never_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing be found but by a wake-up."""
    monkeypatch.setattr(pages, "POLL_S", 3600.0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with file_log(str(tmp_path / "log")) as opened:
        opened.create_topic("t")
        for _ in range(FIRST):
            opened.append("t", sl.Event("first"))
        yield opened


async def taken(log: Log, ready: Any, end: int) -> list[int]:
    found: list[int] = []
    async with log.subscribe("t") as subscription:
        async for record in subscription:
            found.append(record.offset)
            if record.offset == FIRST - 1:
                ready()
            if record.offset == end - 1:
                break
    return found


def on_loop(log: Log, tasks: int, ready: Any, end: int, patience_s: float) -> list[list[int]]:
    async def all_taken() -> list[list[int]]:
        async with asyncio.timeout(patience_s):
            return await asyncio.gather(*(taken(log, ready, end) for _ in range(tasks)))

    return asyncio.run(all_taken())


def append_when(ready: threading.Semaphore, readers: int, log: Log) -> None:
    for _ in range(readers):
        assert ready.acquire(timeout=PATIENCE_S)
    for number in range(COUNT):
        log.append("t", sl.Event("k", number))
        if number % 3 == 2:
            # So that most come in twos and threes, of which only the first is noticed.
            threading.Event().wait(0.0005)


def test_tasks_get_what_others_write_and_store(log: Log, reader: Log) -> None:
    ready = threading.Semaphore(0)
    writer = threading.Thread(target=append_when, args=(ready, 3, log))
    writer.start()

    found = on_loop(reader, 3, ready.release, FIRST + COUNT, PATIENCE_S)

    writer.join()
    assert found == [list(range(FIRST + COUNT))] * 3


@pytest.mark.parametrize("same_log", [True, False])
def test_threads_and_tasks_of_two_loops_wait_at_one_tail(
    log: Log, reader: Log, same_log: bool
) -> None:
    ready = threading.Semaphore(0)
    found: list[list[int]] = []
    followed = log if same_log else reader

    def in_thread() -> None:
        offsets: list[int] = []
        with followed.subscribe("t") as subscription:
            for record in subscription:
                offsets.append(record.offset)
                if record.offset == FIRST - 1:
                    ready.release()
                if record.offset == FIRST + COUNT - 1:
                    break
        found.append(offsets)

    def on_loops() -> None:
        found.extend(on_loop(followed, 2, ready.release, FIRST + COUNT, PATIENCE_S))

    readers = [threading.Thread(target=each) for each in (in_thread, in_thread, on_loops, on_loops)]
    for each in readers:
        each.start()
    append_when(ready, 6, log)
    for each in readers:
        each.join(PATIENCE_S)

    assert found == [list(range(FIRST + COUNT))] * 6


class StoredAfterNotice:
    """A tail watch that finds an end only at the last of so many looks.

    The first one is after a notice, and each but the last says that another one is due.
    """

    def __init__(self, looks: int) -> None:
        self.notices, self.wake_fd = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
        self.looks = 0
        self.last = looks

    def begin_loop(self) -> tuple[int, int, int]:
        return 0, self.notices, self.wake_fd

    def look_on_loop(self, _loop: int, /) -> tuple[bool, bool]:
        self.looks += 1
        if self.looks == 1:
            os.eventfd_read(self.notices)
        return self.looks < self.last, self.looks == self.last

    look_again_on_loop = look_on_loop

    def end_loop(self, _loop: int, /) -> None:
        os.close(self.notices)
        os.close(self.wake_fd)


def wait_for_all_looks(patience_s: float, looks: int = 2) -> None:
    async def scenario() -> None:
        watch: Any = StoredAfterNotice(looks)
        tail = LoopTail(asyncio.get_running_loop(), watch, watch)
        tail.join()
        waiter = LoopWaiter()
        tail.enter(waiter)
        os.eventfd_write(watch.notices, 1)
        try:
            async with asyncio.timeout(patience_s):
                await waiter.wait()
                await waiter.wait()
        finally:
            tail.leave()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_loop_looks_once_more_after_a_notice() -> None:
    wait_for_all_looks(PATIENCE_S)


def test_a_loop_looks_once_more_after_a_notice_that_came_while_a_look_was_due() -> None:
    wait_for_all_looks(PATIENCE_S, looks=3)


def test_a_loop_that_does_not_look_again_is_found_out() -> None:
    bug = Bug("one look", LoopTail, "_look_later", "loop.call_later(...)", "None")

    with bug.planted(), pytest.raises(TimeoutError):
        wait_for_all_looks(0.2)


def test_a_loop_closes_what_it_waited_at(log: Log) -> None:
    def is_waited() -> bool:
        return bool(loop_tail._of_loop.get(asyncio.get_running_loop()))  # noqa: SLF001

    async def scenario() -> tuple[int, int]:
        async with log.subscribe("t") as subscription:
            for _ in range(FIRST):
                await subscription.next(PATIENCE_S)
            step = asyncio.create_task(subscription.next(PATIENCE_S))
            while not is_waited():  # noqa: ASYNC110 - No event says it, nor below.
                await asyncio.sleep(0)
            opened = len(os.listdir("/proc/self/fd"))
            log.append("t", sl.Event("k"))
            assert (await step) is not None
        while len(os.listdir("/proc/self/fd")) >= opened:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return opened, len(os.listdir("/proc/self/fd"))

    async def in_time() -> tuple[int, int]:
        async with asyncio.timeout(PATIENCE_S):
            return await scenario()

    opened, closed = asyncio.run(in_time())
    assert closed < opened


def test_a_step_that_is_cancelled_at_the_end_loses_nothing(log: Log) -> None:
    async def scenario() -> list[int]:
        found: list[int] = []
        async with log.subscribe("t", start=FIRST) as subscription:
            for number in range(20):
                step = asyncio.create_task(anext(subscription))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                step.cancel()
                log.append("t", sl.Event("k", number))
                await asyncio.wait([step])
                if not step.cancelled():
                    found.append(step.result().offset)
            while len(found) < 20:
                async with asyncio.timeout(PATIENCE_S):
                    found.append((await anext(subscription)).offset)
        return found

    assert asyncio.run(scenario()) == list(range(FIRST, FIRST + 20))
