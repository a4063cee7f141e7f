"""Triggers on the program's own loop, started, stopped and cancelled there."""

import asyncio
from typing import Any

import strandline as sl

PATIENCE_S = 30.0


def run(scenario: Any) -> Any:
    async def in_time() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await scenario

    return asyncio.run(in_time())


async def prepared(log: sl.AsyncLog) -> tuple[sl.AsyncTriggers, asyncio.Event]:
    """Return triggers that set an event for the first record, which is there."""
    await log.create_topic("orders")
    await log.append("orders", sl.Event("order"))
    handled = asyncio.Event()
    triggers = sl.AsyncTriggers(sl.Triggers(log))

    @triggers.on("orders", name="count")
    async def count(event: sl.Event) -> None:
        handled.set()

    return triggers, handled


def test_a_run_that_is_cancelled_stops_first() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            triggers, handled = await prepared(log)
            running = asyncio.create_task(triggers.run())
            await handled.wait()
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            assert not triggers.is_running
            assert await log.cursor("orders", "count", 0) == 1

    run(scenario())


def test_a_run_ends_with_a_stop_of_another_task() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            triggers, handled = await prepared(log)
            running = asyncio.create_task(triggers.run())
            await handled.wait()
            triggers.request_stop()
            await running
            await triggers.stop()
            assert triggers.metrics()["count"].handled == 1

    run(scenario())


def test_a_block_starts_and_stops_on_its_loop() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            triggers, handled = await prepared(log)
            async with triggers:
                await handled.wait()
            assert not triggers.is_running
            await triggers.start()  # Again, which continues where it ended.
            await triggers.stop(1.0)
            assert await log.cursor("orders", "count", 0) == 1

    run(scenario())


def test_a_start_that_is_cancelled_leaves_nothing_running() -> None:
    async def scenario() -> None:
        async with sl.open("memory:") as log:
            triggers, _ = await prepared(log)
            starting = asyncio.create_task(triggers.start())
            await asyncio.sleep(0)
            starting.cancel()
            await asyncio.wait([starting])
            await triggers.stop()
            assert not triggers.is_running

    run(scenario())
