"""Consumers on an event loop: the same deliveries, and none lost to a cancellation."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import strandline as sl
from strandline.log import Log, Receipt, TopicName, Value
from strandline.stores.memory import MemoryStore
from strandline.subscriptions import Consumer, SharedConsumer
from tests.logs import SCHEMES
from tests.subscriptions.doubles import PATIENCE_S, SteeredLog, fill
from tests.triggers.calls import wait_until

EVENTS = 6


class GatedLog(Log):
    """Holds up each count that a consumer stores, until it is let through."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.reached = threading.Event()
        self.gate = threading.Event()

    def append(self, topic: TopicName, value: Value, **terms: Any) -> Receipt:
        if "deliveries" in str(topic):
            self.reached.set()
            assert self.gate.wait(PATIENCE_S)
        return super().append(topic, value, **terms)


@pytest.fixture(params=SCHEMES)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url) as opened:
        opened.create_topic("orders")
        fill(opened, "orders", 0, EVENTS)
        yield opened


@pytest.mark.slow
def test_a_loop_consumes_as_a_thread_does(log: sl.Log) -> None:
    async def consume() -> list[tuple[int, int]]:
        seen = []
        async with asyncio.timeout(PATIENCE_S):
            async with sl.AsyncLog(log).consumer("orders", "billing", deliveries_max=2) as billing:
                async for delivery in billing:
                    seen.append((int(delivery.record.offset), delivery.count))
                    if delivery.record.offset == 1:
                        await billing.nack(delivery.record)
                    else:
                        await billing.ack(delivery.record)
                    if delivery.record.offset == EVENTS - 1:
                        await billing.close()
        return seen

    seen = asyncio.run(consume())

    assert seen == [(0, 1), (1, 1), (1, 2), *((n, 1) for n in range(2, EVENTS))]
    assert log.cursor("orders", "billing", 0) == EVENTS
    assert log.marks("__strandline.dead_letters.orders", 0).high == 1


def test_a_loop_waits_on_after_a_record_that_has_failed_too_often(log: sl.Log) -> None:
    log.create_topic("bills")
    fill(log, "bills", 0, 1)
    with log.consumer("bills", "billing", deliveries_max=1) as failing:
        assert failing.next(0.0) is not None

    async def consume() -> sl.Delivery | None:
        async with sl.AsyncLog(log).consumer("bills", "billing", deliveries_max=1) as billing:
            waiting = asyncio.create_task(billing.next(PATIENCE_S))
            await asyncio.to_thread(wait_until, lambda: _has_dead_letter(log))
            fill(log, "bills", 0, 1)
            return await waiting

    found = asyncio.run(consume())

    assert found is not None
    assert found.record.offset == 1


def _has_dead_letter(log: sl.Log) -> bool:
    names = [each.name for each in log.topics(internal=True)]
    return "__strandline.dead_letters.bills" in names


def test_both_ways_to_wait_take_from_one_stream(log: sl.Log) -> None:
    billing = log.consumer("orders", "billing")

    first = billing.next(PATIENCE_S)
    second = asyncio.run(sl.AsyncConsumer(billing).next(PATIENCE_S))
    third = next(billing)
    nothing = [billing.next(0.0) for _ in range(EVENTS - 3)]

    assert first is not None
    assert second is not None
    assert [each.record.offset for each in (first, second, third)] == [0, 1, 2]
    assert None not in nothing
    assert asyncio.run(sl.AsyncConsumer(billing).next(0.0)) is None
    billing.close()


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(12))
def test_a_step_cancelled_at_any_moment_loses_nothing(log: sl.Log, steps: int) -> None:
    billing = sl.AsyncConsumer(log.consumer("orders", "billing"))

    async def consume() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        while len(seen) < EVENTS:
            step = asyncio.ensure_future(billing.next(PATIENCE_S))
            for _ in range(steps):
                await asyncio.sleep(0)
            step.cancel()
            try:
                delivery = await step
            except asyncio.CancelledError:
                delivery = await billing.next(PATIENCE_S)
            assert delivery is not None
            seen.append((int(delivery.record.offset), delivery.count))
            await billing.ack(delivery.record)
        return seen

    assert asyncio.run(consume()) == [(n, 1) for n in range(EVENTS)]
    assert log.cursor("orders", "billing", 0) == EVENTS


def test_a_step_cancelled_while_its_count_is_stored_counts_once() -> None:
    log = GatedLog()
    log.create_topic("orders")
    fill(log, "orders", 0, 1)
    billing = sl.AsyncConsumer(Consumer(log, "orders", "billing"))

    async def cancel_and_go_on() -> sl.Delivery | None:
        step = asyncio.ensure_future(billing.next())
        await asyncio.to_thread(log.reached.wait, PATIENCE_S)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        again = asyncio.ensure_future(billing.next())
        await asyncio.sleep(0)
        log.gate.set()
        return await again

    delivery = asyncio.run(cancel_and_go_on())

    assert delivery is not None
    assert (delivery.record.offset, delivery.count) == (0, 1)
    (notes,) = log.topics(internal=True)
    assert log.marks(notes, 0).high == 1
    log.close()


def test_a_loop_continues_while_a_count_is_stored() -> None:
    log = GatedLog()
    log.create_topic("orders")
    fill(log, "orders", 0, 1)
    billing = sl.AsyncConsumer(Consumer(log, "orders", "billing"))

    async def let_through() -> sl.Delivery | None:
        step = asyncio.ensure_future(billing.next())
        await asyncio.to_thread(log.reached.wait, PATIENCE_S)
        log.gate.set()  # Never reached if the loop stood still.
        return await step

    assert asyncio.run(let_through()) is not None
    log.close()


def test_closing_ends_the_loop_and_leaves_no_watch() -> None:
    log = SteeredLog()
    log.inner.create_topic("orders")
    billing = Consumer(cast("Log", log), "orders", "billing")

    async def close_while_waiting() -> list[sl.Delivery]:
        async def consume() -> list[sl.Delivery]:
            return [delivery async for delivery in sl.AsyncConsumer(billing)]

        consuming = asyncio.ensure_future(consume())
        await asyncio.to_thread(log.watches[0].entered.wait, PATIENCE_S)
        billing.close()
        return await consuming

    assert asyncio.run(close_while_waiting()) == []
    assert log.watches_open == 0


def held_up_read(log: SteeredLog, *, after: bool) -> tuple[threading.Event, threading.Event]:
    """Hold up the first read of a log; return what says that it is reached, and the gate."""
    reached, gate = threading.Event(), threading.Event()

    def hold_up(partition: int) -> None:
        if not reached.is_set():
            reached.set()
            assert gate.wait(PATIENCE_S), partition

    if after:
        log.after_read = hold_up
    else:
        log.before_read = hold_up
    return reached, gate


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fetches", [False, True])
def test_a_step_waits_for_the_read_of_one_that_was_cancelled(*, after: bool, fetches: bool) -> None:
    log = SteeredLog()
    log.inner.create_topic("orders")
    fill(log.inner, "orders", 0, EVENTS)
    billing = sl.AsyncConsumer(Consumer(log.as_log(), "orders", "billing"))
    reached, gate = held_up_read(log, after=after)

    async def step() -> list[sl.Delivery]:
        if fetches:
            return await billing.fetch(max_records=2, timeout_s=PATIENCE_S)
        found = await billing.next(PATIENCE_S)
        assert found is not None
        return [found]

    async def consume() -> list[int]:
        cancelled = asyncio.ensure_future(billing.fetch(max_records=3))
        await asyncio.to_thread(reached.wait, PATIENCE_S)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        seen: list[int] = []
        going_on = asyncio.ensure_future(step())
        for _ in range(5):
            await asyncio.sleep(0)
        gate.set()
        seen.extend(int(each.record.offset) for each in await going_on)
        while len(seen) < EVENTS:
            seen.extend(int(each.record.offset) for each in await step())
        return seen

    assert asyncio.run(consume()) == list(range(EVENTS))
    billing.blocking.close()


def test_a_step_on_another_loop_continues_after_one_that_was_cancelled() -> None:
    log = SteeredLog()
    log.inner.create_topic("orders")
    fill(log.inner, "orders", 0, 1)
    billing = sl.AsyncConsumer(Consumer(log.as_log(), "orders", "billing"))
    reached, gate = held_up_read(log, after=False)

    async def cancel() -> None:
        cancelled = asyncio.ensure_future(billing.fetch())
        await asyncio.to_thread(reached.wait, PATIENCE_S)
        cancelled.cancel()
        gate.set()

    asyncio.run(cancel())
    found = asyncio.run(billing.fetch(timeout_s=PATIENCE_S))

    assert [int(each.record.offset) for each in found] == [0]
    billing.blocking.close()


def test_what_a_cancelled_step_has_met_is_not_reported_by_the_loop() -> None:
    log = SteeredLog()
    log.inner.create_topic("orders")
    fill(log.inner, "orders", 0, 1)
    billing = sl.AsyncConsumer(Consumer(log.as_log(), "orders", "billing"))
    reached, gate = held_up_read(log, after=False)
    reported: list[Any] = []

    async def consume() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        cancelled = asyncio.ensure_future(billing.fetch())
        await asyncio.to_thread(reached.wait, PATIENCE_S)
        cancelled.cancel()
        billing.blocking.close()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(sl.ClosedError):
            await billing.fetch()
        gc.collect()

    asyncio.run(consume())

    assert reported == []


class HeldUpReads(Log):
    """Holds up the first read of a single record, until it is let through."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.reached = threading.Event()
        self.gate = threading.Event()

    def read(self, *args: Any, **limits: Any) -> Iterator[sl.Record]:
        if limits.get("records_max") == 1 and not self.reached.is_set():
            self.reached.set()
            assert self.gate.wait(PATIENCE_S)
        return super().read(*args, **limits)


def test_a_step_of_a_queue_waits_for_the_lease_of_one_that_was_cancelled() -> None:
    log = HeldUpReads()
    log.create_topic("orders")
    fill(log, "orders", 0, EVENTS)
    worker = sl.AsyncSharedConsumer(SharedConsumer(log, "orders", "workers"))

    async def consume() -> list[tuple[int, int]]:
        cancelled = asyncio.ensure_future(worker.fetch(max_records=1))
        await asyncio.to_thread(log.reached.wait, PATIENCE_S)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        going_on = asyncio.ensure_future(worker.fetch(max_records=1))
        done, _ = await asyncio.wait([going_on], timeout=0.1)
        assert not done, "it leases another"
        log.gate.set()
        return [(int(each.record.offset), each.count) for each in await going_on]

    assert asyncio.run(consume()) == [(0, 1)]
    log.close()
