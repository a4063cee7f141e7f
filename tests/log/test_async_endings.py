"""How the async face of a log is opened and closed."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import strandline as sl
from strandline.log import Log
from strandline.log.async_reading import AsyncWatch
from strandline.log.off_loop import Opening, in_thread, opens
from tests.log.test_async_log import PATIENCE_S, run


def test_a_log_whose_leaving_is_cancelled_is_closed() -> None:
    async def leave() -> None:
        loop = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1)
        loop.set_default_executor(executor)
        gate = threading.Event()
        held: list[sl.AsyncLog] = []

        async def use() -> None:
            async with sl.open("memory:") as log:
                held.append(log)
                # The closing waits for its thread, which has other work.
                executor.submit(gate.wait)

        task = asyncio.create_task(use())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        gate.set()
        # What comes after it in the one thread finds it closed.
        with pytest.raises(sl.ClosedError):
            await held[0].create_topic("t")

    asyncio.run(leave())


def test_what_is_no_blocking_log_has_no_async_face() -> None:
    with pytest.raises(sl.InvalidError, match="pass a log that is open"):
        sl.AsyncLog("memory:")  # type: ignore[arg-type]
    with sl.open("memory:") as log, pytest.raises(sl.InvalidError, match="async log already"):
        sl.AsyncLog(sl.AsyncLog(log))  # type: ignore[arg-type]


class _Opened:
    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_what_a_cancelled_opening_opens_afterwards_is_closed() -> None:
    opened, entered, gate = _Opened(), threading.Event(), threading.Event()

    def make() -> _Opened:
        entered.set()
        assert gate.wait(PATIENCE_S)
        return opened

    async def opens_it() -> object:
        return await Opening(make, lambda each: each)

    async def scenario() -> None:
        opening = asyncio.create_task(opens_it())
        assert await in_thread(entered.wait, PATIENCE_S)
        opening.cancel()
        await asyncio.wait([opening])
        gate.set()
        assert await in_thread(opened.closed.wait, PATIENCE_S)

    run(scenario())


def test_a_subscription_is_closed_at_the_end_of_its_block() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            await log.create_topic("orders")
            async with log.subscribe("orders") as subscription:
                assert (await log.metrics()).subscriptions == 1
            # Not because it was collected.
            assert subscription is not None
            assert (await log.metrics()).subscriptions == 0

    run(scenario())


def test_the_face_of_a_method_says_what_it_opens() -> None:
    face = opens(Log.watch, AsyncWatch)

    assert face.__annotations__["return"] == "Opening[AsyncWatch]"


def test_the_async_face_has_the_queue_depth_of_its_log() -> None:
    with sl.open("memory:", queue_depth=7) as log:
        assert sl.AsyncLog(log).queue_depth == log.queue_depth == 7
