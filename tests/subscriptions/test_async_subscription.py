"""Subscriptions on an event loop: history is read in a thread, and no cancelled step loses it."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

import strandline as sl
from strandline.log import Reach
from strandline.log.off_loop import in_thread
from strandline.stores.memory import MemoryStore
from strandline.subscriptions import AsyncSubscription, Subscription, subscribe
from tests.subscriptions.doubles import PATIENCE_S, SteeredLog, fill


class Gate:
    """Holds reads up until they are let through."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.may_go_on = threading.Event()

    def __call__(self, partition: int) -> None:  # noqa: ARG002 - All are held.
        self.entered.set()
        assert self.may_go_on.wait(PATIENCE_S)


@pytest.fixture
def steered() -> SteeredLog:
    steered = SteeredLog()
    steered.inner.create_topic("orders")
    fill(steered.as_log(), "orders", 0, 5)
    return steered


def run(scenario: Any) -> Any:
    async def in_time() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await scenario

    return asyncio.run(in_time())


def test_a_loop_continues_while_history_is_read(steered: SteeredLog) -> None:
    steered.before_read = gate = Gate()

    async def scenario() -> int:
        async with subscribe(steered.as_log(), "orders") as orders:
            step = asyncio.create_task(anext(orders))
            assert await in_thread(gate.entered.wait, PATIENCE_S)
            gate.may_go_on.set()  # Never come to if the loop stood still.
            return (await step).offset

    assert run(scenario()) == 0


def test_a_step_cancelled_while_history_is_read_loses_nothing(steered: SteeredLog) -> None:
    steered.before_read = gate = Gate()

    async def scenario() -> list[int]:
        async with subscribe(steered.as_log(), "orders") as orders:
            cancelled = asyncio.create_task(anext(orders))
            assert await in_thread(gate.entered.wait, PATIENCE_S)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            step = asyncio.create_task(anext(orders))
            await asyncio.sleep(0)
            gate.may_go_on.set()  # Never come to if the next step waited on the loop.
            found = [await step, *[await orders.next(1.0) for _ in range(4)]]
            return [record.offset for record in found if record is not None]

    assert run(scenario()) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_record_taken_in_a_thread_is_found_out(
    steered: SteeredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taken(self: Subscription[sl.Record]) -> Any:
        return await in_thread(self._take)

    monkeypatch.setattr(Subscription, "_take_on_loop", taken)
    with pytest.raises((AssertionError, TimeoutError)):
        test_a_step_cancelled_while_history_is_read_loses_nothing(steered)


def test_a_read_that_fails_in_its_thread_can_be_repeated(steered: SteeredLog) -> None:
    left = [1]

    def fail(partition: int) -> None:
        if left.pop() if left else 0:
            raise sl.CorruptError("a page cannot be read", file="page", position=0)

    steered.before_read = fail

    async def scenario() -> list[int]:
        async with subscribe(steered.as_log(), "orders") as orders:
            with pytest.raises(sl.CorruptError):
                await orders.next(PATIENCE_S)
            return [(await anext(orders)).offset for _ in range(5)]

    assert run(scenario()) == [0, 1, 2, 3, 4]


def test_a_reader_that_has_caught_up_reads_on_the_loop(steered: SteeredLog) -> None:
    threads: list[int] = []
    steered.before_read = lambda partition: threads.append(threading.get_ident())

    async def scenario() -> None:
        async with subscribe(steered.as_log(), "orders") as orders:
            for _ in range(5):
                await anext(orders)
            assert await orders.next(0) is None
            threads.clear()
            step = asyncio.create_task(anext(orders))
            await asyncio.sleep(0)
            fill(steered.as_log(), "orders", 0, 1)
            assert (await step).offset == 5
        assert set(threads) == {threading.get_ident()}

    run(scenario())


def test_a_stream_that_is_left_early_is_closed(steered: SteeredLog) -> None:
    async def scenario() -> None:
        log = steered.as_log()
        async with subscribe(log, "orders") as orders:
            assert (await anext(orders)).offset == 0
        with pytest.raises(sl.ClosedError):
            await orders.next(0)
        assert [record async for record in AsyncSubscription(orders.blocking)] == []

    run(scenario())

    assert steered.watches_open == 0


class FarStore(MemoryStore):
    """Says that it is looked at over a network, and notes on which threads it is."""

    capabilities = replace(MemoryStore.capabilities, reach=Reach.NETWORK)

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        self.marks, self.read = self._noted(self.marks), self._noted(self.read)  # type: ignore[misc]

    def _noted(self, call: Any) -> Any:
        def noted(*args: Any) -> Any:
            self.threads.add(threading.get_ident())
            return call(*args)

        return noted


def test_a_store_over_a_network_is_never_looked_at_on_the_loop() -> None:
    store = FarStore()
    log = sl.Log(store)
    log.create_topic("orders")
    fill(log, "orders", 0, 2)
    store.threads.clear()

    async def scenario() -> None:
        async with sl.AsyncLog(log).subscribe("orders") as orders:
            for _ in range(2):
                await anext(orders)
            assert await orders.next(0) is None
            step = asyncio.create_task(anext(orders))
            await asyncio.sleep(0)
            await sl.AsyncLog(log).append("orders", sl.Event("counted", 3))
            assert (await step).offset == 2
        assert threading.get_ident() not in store.threads

    run(scenario())

    assert store.threads


def test_async_with_gives_the_subscription_itself(steered: SteeredLog) -> None:
    async def read() -> list[int]:
        async with AsyncSubscription(subscribe(steered.as_log(), "orders")) as orders:
            return [record.offset for record in [await orders.next(0)] if record is not None]

    assert run(read()) == [0]
