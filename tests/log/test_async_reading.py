"""Watches and batches on an event loop."""

import asyncio

import pytest

import strandline as sl
from tests.log.test_async_log import PATIENCE_S, event, run


def test_a_watch_is_woken_and_closed_on_a_loop() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            await log.create_topic("orders")
            watch = await log.watch()
            await watch.add("orders", 0, 0)
            watch.wake()
            assert not await watch.wait(PATIENCE_S)
            waiting = asyncio.create_task(watch.wait(PATIENCE_S))
            await asyncio.sleep(0)
            await watch.close()
            with pytest.raises(sl.ClosedError):
                await waiting
            assert watch.is_closed
            assert watch.blocking.is_closed

    run(scenario())


def test_batches_have_a_face_for_threads() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            await log.create_topic("orders")
            await log.append("orders", event(0))
            batches = await log.read_batches("orders", 0, 0)
            assert [each.num_rows for each in batches.blocking] == [1]
            assert f"{batches!r}" == f"AsyncBatches({batches.blocking!r})"

    run(scenario())
