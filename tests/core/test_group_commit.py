"""Durable appends by the core: threads and tasks that share a sync."""

import _thread
import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.values import Durability
from tests.core.plain import needs_core
from tests.core.test_lane import lane_of
from tests.logs import file_log

pytestmark = needs_core

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing looked at again by Python, however slow a test is."""
    monkeypatch.setattr("strandline.log.topic_lane.ROUTE_CHECK_S", 3600.0)
    monkeypatch.setattr("strandline.stores.files.partition_writer._OWN_CHECK_S", 3600.0)


@pytest.fixture(params=[False, True], ids=["shared", "exclusive"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with file_log(f"{tmp_path}/log", exclusive=request.param) as made:
        made.create_topic("t")
        warm(made)
        yield made


def warm(log: Log) -> None:
    """Have the next durable append written and synced by the core."""
    log.append("t", sl.Event("first"))
    log.append("t", sl.Event("second"), durability="durable")
    assert lane_of(log).is_armed


def store_of(log: Log) -> Any:
    topics: Any = log._store.topics()  # noqa: SLF001 - What syncs is below the surface.
    return topics[0].lanes[0].store


def commit_of(log: Log) -> Any:
    return store_of(log).compiled.commit


def syncs(log: Log) -> int:
    writes = log.metrics().writes
    assert writes is not None
    return writes.syncs


def until(condition: Callable[[], bool]) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def syncing(log: Log) -> Iterator[Any]:
    """Be the thread that syncs, so that others wait."""
    commit = commit_of(log)
    assert commit.acquire(True, WAIT_S)
    try:
        yield commit
    finally:
        commit.release()


@contextmanager
def appending(log: Log, count: int) -> Iterator[list[Any]]:
    """Append durably in threads of their own; gives the list of what they return or raise."""
    outcomes: list[Any] = []

    def work(number: int) -> None:
        try:
            outcomes.append(log.append("t", sl.Event("k", number), durability="durable"))
        except Exception as error:  # noqa: BLE001 - The test looks at it.
            outcomes.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    yield outcomes
    for thread in threads:
        thread.join(WAIT_S)
    assert len(outcomes) == count


@contextmanager
def blocked(log: Log, count: int) -> Iterator[list[Any]]:
    """Append in threads that wait for a sync, until the block ends."""
    with ExitStack() as after:
        commit = commit_of(log)
        assert commit.acquire(True, WAIT_S)
        try:
            outcomes = after.enter_context(appending(log, count))
            until(lambda: commit.waiting == count)
            yield outcomes
        finally:
            commit.release()


def test_a_durable_append_is_synced_by_the_core_alone(log: Log) -> None:
    before, seconds = syncs(log), commit_of(log).sync_s

    receipts = [log.append("t", sl.Event("k"), durability="durable") for _ in range(5)]

    assert [each.level for each in receipts] == [Durability.DURABLE] * 5
    assert syncs(log) == before + 5
    assert commit_of(log).sync_s > seconds
    assert log.marks("t", 0).durable == 7


def test_threads_that_wait_share_one_sync(log: Log) -> None:
    before = syncs(log)
    with blocked(log, 8) as outcomes:
        assert not outcomes

    assert sorted(each.offset for each in outcomes) == list(range(2, 10))
    assert {each.level for each in outcomes} == {Durability.DURABLE}
    assert syncs(log) == before + 1
    assert log.marks("t", 0).durable == 10


def test_what_is_written_during_a_sync_waits_for_the_next(log: Log) -> None:
    with syncing(log) as commit:
        commit.begin()
        written = log.append("t", sl.Event("k"))
        commit.end()

        assert written.level is Durability.WRITTEN

    assert written.wait("durable").level is Durability.DURABLE


def test_an_interrupt_ends_the_wait_and_leaves_nothing_locked(log: Log) -> None:
    with syncing(log) as commit:

        def interrupt() -> None:
            until(lambda: commit.waiting == 1)
            _thread.interrupt_main()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            log.append("t", sl.Event("interrupted"), durability="durable")
        thread.join(WAIT_S)
        assert commit.waiting == 0

    assert not commit.locked()
    assert log.append("t", sl.Event("later"), durability="durable").offset == 3
    assert [each.kind for each in log.read("t", 0, 2)] == ["interrupted", "later"]
    assert log.marks("t", 0).durable == 4


def fail_syncs(log: Log) -> Callable[[], None]:
    """Have each sync by the core fail until Python is to sync; return what ends that."""
    syncing: Any = store_of(log).syncing
    last, sync = syncing._last, syncing.sync  # noqa: SLF001 - A descriptor is replaced there.
    read_end, write_end = os.pipe()

    class Unsyncable:
        fd = read_end

    def sync_again() -> None:
        # From here on it would succeed, although what it was to cover may be lost.
        os.dup2(last.segment.fd, read_end)
        sync()

    syncing._last = last._replace(segment=Unsyncable())  # noqa: SLF001
    commit = commit_of(log)
    assert commit.acquire(True, WAIT_S)
    syncing._arm()  # noqa: SLF001
    syncing.sync = sync_again
    commit.release()

    def close() -> None:
        os.close(read_end)
        os.close(write_end)

    return close


@pytest.mark.parametrize("threads", [1, 6])
def test_after_a_failed_sync_nothing_is_called_durable(tmp_path: Path, threads: int) -> None:
    log = file_log(f"{tmp_path}/log")
    log.create_topic("t")
    warm(log)
    earlier = log.append("t", sl.Event("earlier"))
    close = fail_syncs(log)

    with blocked(log, threads) as outcomes:
        pass
    with pytest.raises(sl.FailedError):
        log.append("t", sl.Event("later"), durability="durable")
    with pytest.raises(sl.FailedError):
        earlier.wait("durable")

    assert {type(each) for each in outcomes} == {sl.UnknownError}
    assert all(isinstance(each.__cause__, OSError) for each in outcomes)
    assert (earlier.level, log.marks("t", 0).durable) == (Durability.WRITTEN, 2)
    # Others learn it from the tail: they begin an epoch with what can be read.
    with file_log(f"{tmp_path}/log") as other:
        other.append("t", sl.Event("other"))
        assert len(other.epochs("t", 0)) == 2
    log.close()
    close()


def test_a_failure_elsewhere_ends_the_wait(log: Log) -> None:
    topics: Any = log._store.topics()  # noqa: SLF001 - What fails is below the surface.
    coordinator = topics[0].lanes[0]._coordinator  # noqa: SLF001
    with syncing(log) as commit, appending(log, 3) as outcomes:
        until(lambda: commit.waiting == 3)
        coordinator.failed_beside(OSError("elsewhere"))
        # Although the thread that syncs has not come back.
        until(lambda: len(outcomes) == 3)

    assert {type(each) for each in outcomes} == {sl.UnknownError}


def is_closed(log: Log) -> bool:
    try:
        log.marks("t", 0)
    except sl.ClosedError:
        return True
    return False


def append_by_text(log: Log) -> None:
    # Not the one object that a literal is.
    given: Any = b"durable".decode()
    log.append("t", sl.Event("k"), durability=given)


def append_two(log: Log) -> None:
    log.append_many("t", [sl.Event("k"), sl.Event("k")], durability="durable")


def append_one(log: Log) -> None:
    log.append("t", sl.Event("k"), durability="durable")


@pytest.mark.parametrize("append", [append_one, append_by_text, append_two])
def test_an_append_whose_log_is_closed_while_it_waits_is_not_called_refused(
    log: Log, append: Callable[[Log], None]
) -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            append(log)
        except sl.StrandlineError as error:
            raised.append(error)

    waiting = threading.Thread(target=work)
    closing = threading.Thread(target=log.close)
    high = log.marks("t", 0).high
    with syncing(log):
        waiting.start()
        until(lambda: log.marks("t", 0).high > high)
        closing.start()
        until(lambda: is_closed(log))
    waiting.join(WAIT_S)
    closing.join(WAIT_S)

    # It is stored: either the sync was made for it, or that is not known.
    assert {type(each) for each in raised} <= {sl.UnknownError}


def test_a_child_of_a_fork_gets_closed_error_while_threads_wait(log: Log) -> None:
    with blocked(log, 2):
        child = os.fork()
        if child == 0:
            try:
                log.append("t", sl.Event("k"), durability="durable")
            except sl.ClosedError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_full_segment_is_followed_by_another(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log", segment_bytes=1 << 16) as log:
        log.create_topic("t")
        for number in range(60):
            event = sl.Event("k", f"{number}" + "x" * 4000)
            receipt = log.append("t", event, durability="durable")
            assert (receipt.offset, receipt.level) == (number, Durability.DURABLE)
            assert log.marks("t", 0).durable == number + 1
        assert len(log.segments("t", 0)) > 2
        assert all(report.is_sound for report in log.verify("t"))


def test_a_fenced_writer_calls_nothing_durable(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log", exclusive=True) as old:
        old.create_topic("t")
        warm(old)
        written = old.append("t", sl.Event("old"))
        with file_log(
            f"{tmp_path}/log", exclusive=True, take_over=True, lock_timeout_s=0.01
        ) as new:
            new.append("t", sl.Event("new"), durability="durable")
            ended = commit_of(old).ended
            # What was written before the take-over is part of what was taken over.
            assert written.wait("durable").offset == 2
            with pytest.raises((sl.ClosedError, sl.UnknownError)):
                old.append("t", sl.Event("fenced"), durability="durable")

            assert [each.kind for each in new.read("t", 0, 2)] == ["old", "new"]
            assert commit_of(old).ended <= ended + 1


def test_others_see_what_is_durable(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log, file_log(f"{tmp_path}/log") as other:
        log.create_topic("t")
        warm(log)
        for number in range(3, 6):
            log.append("t", sl.Event("k"), durability="durable")
            assert other.marks("t", 0).durable == number


def test_a_subscription_to_what_is_durable_is_woken(log: Log) -> None:
    with log.subscribe("t", start=sl.LATEST, durable_only=True) as subscription:
        assert subscription.next(timeout_s=0) is None
        written = log.append("t", sl.Event("written"))
        assert subscription.next(timeout_s=0) is None
        log.append("t", sl.Event("durable"), durability="durable")

        record: Any = subscription.next(timeout_s=WAIT_S)
        assert record.offset == written.offset


# --- on a loop ---


def on_loop(tmp_path: Path, work: Callable[[sl.AsyncLog], Any]) -> Any:
    async def run() -> Any:
        async with file_log(f"{tmp_path}/log") as log:
            await log.create_topic("t")
            await asyncio.to_thread(warm, log.blocking)
            return await work(log)

    return asyncio.run(run())


def test_tasks_that_wait_are_woken_by_one_call_after_one_sync(tmp_path: Path) -> None:
    async def work(log: sl.AsyncLog) -> None:
        commit = commit_of(log.blocking)
        loop: Any = asyncio.get_running_loop()
        calls: list[Any] = []
        call_soon = loop.call_soon_threadsafe
        before = syncs(log.blocking)
        assert commit.acquire(False)
        waiting = [log.append("t", sl.Event("k", n), durability="durable") for n in range(16)]
        tasks = [asyncio.ensure_future(_awaited(each)) for each in waiting]
        await asyncio.to_thread(until, lambda: commit.waiting == 1)
        # All of them are written, and none is durable.
        assert [each.offset for each in waiting] == list(range(2, 18))
        assert {each.level for each in waiting} == {Durability.WRITTEN}

        def counted(*given: Any) -> Any:
            calls.append(given)
            return call_soon(*given)

        loop.call_soon_threadsafe = counted
        commit.release()
        done = await asyncio.gather(*tasks)

        assert {each.level for each in done} == {Durability.DURABLE}
        assert syncs(log.blocking) == before + 1
        assert len(calls) == 1

    on_loop(tmp_path, work)


async def _awaited(receipt: sl.AsyncReceipt) -> sl.AsyncReceipt:
    return await receipt


def test_a_cancelled_task_leaves_the_others_waiting(tmp_path: Path) -> None:
    async def work(log: sl.AsyncLog) -> None:
        commit = commit_of(log.blocking)
        assert commit.acquire(False)
        waiting = [log.append("t", sl.Event("k", n), durability="durable") for n in range(3)]
        tasks = [asyncio.ensure_future(_awaited(each)) for each in waiting]
        await asyncio.to_thread(until, lambda: commit.waiting == 1)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        commit.release()

        assert [(await each).offset for each in (tasks[0], tasks[2], waiting[1])] == [2, 4, 3]

    on_loop(tmp_path, work)


def test_a_failed_sync_raises_in_each_task(tmp_path: Path) -> None:
    async def work(log: sl.AsyncLog) -> Callable[[], None]:
        close = await asyncio.to_thread(fail_syncs, log.blocking)
        waiting = [log.append("t", sl.Event("k"), durability="durable") for _ in range(3)]
        found = await asyncio.gather(*waiting, return_exceptions=True)

        assert {type(each) for each in found} <= {sl.UnknownError, sl.FailedError}
        assert {each.level for each in waiting} == {Durability.WRITTEN}
        return close

    on_loop(tmp_path, work)()


def test_loops_that_come_and_go_are_all_served(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("t")
        warm(log)

        async def work() -> int:
            face = sl.AsyncLog(log)
            receipts = await asyncio.gather(
                *(face.append("t", sl.Event("k"), durability="durable") for _ in range(4))
            )
            return max(each.offset for each in receipts)

        assert [asyncio.run(work()) for _ in range(3)] == [5, 9, 13]
