"""An append on an event loop by the core, from the name of a topic to what is awaited."""

import asyncio
import errno
import gc
import sys
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FakeClock, FaultyIo
from tests.core.plain import needs_core
from tests.core.test_references import grown
from tests.log.files.test_warm_append import traced
from tests.logs import file_log

pytestmark = needs_core


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no topic looked at again, however slow a test is."""
    monkeypatch.setattr("strandline.log.topic_lane.ROUTE_CHECK_S", 3600.0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with file_log(f"{tmp_path}/log", exclusive=True) as made:
        made.create_topic("orders")
        made.append("orders", sl.Event("first"))
        yield made


def run_once(awaited: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns without being suspended."""
    with pytest.raises(StopIteration) as ended:
        awaited.send(None)
    return ended.value.value


async def waited(receipt: sl.AsyncReceipt) -> sl.AsyncReceipt:
    return await receipt


def test_one_python_function_is_called(log: Log) -> None:
    async def work() -> list[str]:
        face = sl.AsyncLog(log)
        await face.append("orders", sl.Event("k"))
        # Now and then an owner looks after its files, in Python.
        append = partial(face.append, "orders", sl.Event("k"))
        return min((traced(append) for _ in range(20)), key=len)

    assert asyncio.run(work()) == ["async_log.py append"]


def test_an_await_of_what_is_written_does_not_suspend_the_task(log: Log) -> None:
    async def work() -> None:
        receipt = sl.AsyncLog(log).append("orders", sl.Event("k"))

        assert run_once(waited(receipt)) is receipt
        assert run_once(waited(receipt)) is receipt
        assert (receipt.offset, receipt.level) == (1, sl.Durability.WRITTEN)
        both = await asyncio.gather(receipt, receipt)
        assert all(each is receipt for each in both)

    asyncio.run(work())


def test_what_awaits_a_receipt_ends_once(log: Log) -> None:
    async def work() -> None:
        receipt = sl.AsyncLog(log).append("orders", sl.Event("k"))
        awaiting: Any = receipt.__await__()

        with pytest.raises(StopIteration) as ended:
            next(awaiting)
        with pytest.raises(StopIteration) as again:
            next(awaiting)

        assert (iter(awaiting), ended.value.value) == (awaiting, receipt)
        assert again.value.value is None
        with pytest.raises(TypeError):
            type(awaiting)()

    asyncio.run(work())


def test_an_await_of_what_has_to_be_durable_waits_for_its_round(log: Log) -> None:
    async def work() -> None:
        face = sl.AsyncLog(log)
        await face.append("orders", sl.Event("k"), durability="durable")
        receipts = [face.append("orders", sl.Event("k"), durability="durable") for _ in range(16)]

        awaited = await asyncio.gather(*receipts)

        assert all(one is other for one, other in zip(awaited, receipts, strict=True))
        assert {each.level for each in awaited} == {sl.Durability.DURABLE}
        assert [each.offset for each in awaited] == list(range(2, 18))

    asyncio.run(work())


def test_a_task_that_is_cancelled_as_it_waits_takes_no_other_with_it(log: Log) -> None:
    async def work() -> None:
        face = sl.AsyncLog(log)
        await face.append("orders", sl.Event("k"), durability="durable")
        shared = face.append("orders", sl.Event("k"), durability="durable")
        tasks = [asyncio.create_task(waited(shared)) for _ in range(3)]
        unstarted = asyncio.create_task(waited(shared))
        await asyncio.sleep(0)
        for each in (tasks[0], unstarted):
            each.cancel()
        ended = await asyncio.gather(*tasks, unstarted, return_exceptions=True)

        assert isinstance(ended[0], asyncio.CancelledError)
        assert isinstance(ended[3], asyncio.CancelledError)
        assert ended[1] is ended[2] is await shared
        assert shared.level is sl.Durability.DURABLE

    asyncio.run(work())


def test_a_failed_round_raises_from_each_await_and_ends_it(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())

    async def work() -> None:
        async with file_log(f"{tmp_path}/log", io=io, clock=FakeClock(), exclusive=True) as log:
            await log.create_topic("orders")
            for _ in range(3):
                await log.append("orders", sl.Event("k"), durability="durable")
            io.fail(1, errno.EIO, kinds=["sync"])
            receipt = log.append("orders", sl.Event("k"), durability="durable")
            for _ in range(2):
                with pytest.raises(sl.FailedError):
                    await receipt

    asyncio.run(work())


def test_an_append_without_a_loop_is_refused_and_does_nothing(log: Log) -> None:
    face = sl.AsyncLog(log)

    with pytest.raises(sl.InvalidError, match="running asyncio event loop"):
        face.append("orders", sl.Event("k"))

    assert len(list(log.read("orders", 0, 0))) == 1


def test_an_append_that_is_refused_raises_when_it_is_awaited(tmp_path: Path) -> None:
    async def work() -> None:
        async with file_log(f"{tmp_path}/log", record_bytes_max=1000) as log:
            await log.create_topic("orders")
            await log.append("orders", sl.Event("first"))
            receipt = log.append("orders", sl.Event("k", "x" * 2000))
            with pytest.raises(sl.InvalidError, match="record_bytes_max"):
                await receipt
            assert (await log.append("orders", sl.Event("k"))).offset == 1

    asyncio.run(work())


@pytest.mark.slow
def test_no_block_is_left_behind_by_many_appends(log: Log) -> None:
    async def work() -> int:
        face, event = sl.AsyncLog(log), sl.Event("k")
        await face.append("orders", event)
        written = grown(lambda: run_once(waited(face.append("orders", event))), 2_000)
        blocks = []
        for _ in range(3):
            for _ in range(500):
                await face.append("orders", event, durability="durable")
            gc.collect()
            blocks.append(sys.getallocatedblocks())
        return max(written, blocks[2] - blocks[1])

    assert asyncio.run(work()) < 100
