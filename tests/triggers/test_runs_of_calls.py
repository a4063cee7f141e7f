"""Records that are taken in advance, and handled in runs, with the same results."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import strandline as sl
from strandline.subscriptions import Consumer
from strandline.testing import FakeClock
from strandline.triggers import Counters, Triggers
from tests.logs import OpenAgain
from tests.triggers.calls import Calls, cursors, publish, wait_until

Body = Callable[[sl.Record, sl.Delivery], None]
Ways = Callable[[Body], Callable[..., Any]]


def blocking(body: Body) -> Callable[..., Any]:
    """Return a function that blocks."""
    return body


def on_the_loop(body: Body) -> Callable[..., Any]:
    """Return an async function that waits for nothing."""

    async def call(record: sl.Record, delivery: sl.Delivery) -> None:
        body(record, delivery)

    return call


def waiting(body: Body) -> Callable[..., Any]:
    """Return an async function that waits now and then."""

    async def call(record: sl.Record, delivery: sl.Delivery) -> None:
        if record.offset % 3 == 0:
            await asyncio.sleep(0)
        body(record, delivery)

    return call


def in_two_parts(body: Body) -> Callable[..., Any]:
    """Return a function that blocks, and gives something to await."""
    second = waiting(body)

    def call(record: sl.Record, delivery: sl.Delivery) -> Coroutine[Any, Any, None]:
        made: Coroutine[Any, Any, None] = second(record, delivery)
        return made

    return call


ways = pytest.mark.parametrize("way", [blocking, on_the_loop, waiting, in_two_parts])


def orders(count: int, *, key: Callable[[int], str | None] = lambda _: None) -> sl.Log:
    """Return a log in memory with so many orders."""
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    events = [sl.Event("order", {"number": n}, key=key(n)) for n in range(count)]
    log.append_many("orders", events, partition=0)
    return log


@ways
def test_each_record_is_handled_once_and_begins_in_order(way: Ways) -> None:
    calls, log = Calls(), orders(700)
    triggers = Triggers(log)
    triggers.on("orders", name="billing")(way(lambda record, _: calls.note(record.offset)))

    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 700)
        wait_until(lambda: triggers.metrics()["billing"] == Counters(handled=700))

    assert calls.seen == list(range(700))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slow_function_holds_up_none_of_those_that_were_taken_with_it(is_async: bool) -> None:
    calls, gate, log = Calls(), threading.Event(), orders(500)
    triggers = Triggers(log)

    def bill(record: sl.Record) -> None:
        if record.offset == 300:
            assert gate.wait(20)
        calls.note(record.offset)

    async def ship(record: sl.Record) -> None:
        if record.offset == 300:
            assert await asyncio.to_thread(gate.wait, 20)
        calls.note(record.offset)

    triggers.on("orders", name="billing", concurrency=2)(ship if is_async else bill)
    with triggers:
        calls.wait_for(499)
        wait_until(lambda: cursors(log, "billing")[0] == 300)
        gate.set()
        wait_until(lambda: cursors(log, "billing")[0] == 500)

    assert calls.seen[-1] == 300
    assert sorted(calls.seen) == list(range(500))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_may_wait_for_that_of_the_next_record_if_a_place_is_free(is_async: bool) -> None:
    log, calls = orders(300), Calls()
    # Time stands still, so that as much as may be is taken at once.
    triggers = Triggers(log, clock=FakeClock())

    def follow(record: sl.Record) -> None:
        if record.offset % 3 == 0 and 300 <= record.offset < 399:
            calls.wait_until(lambda seen: record.offset + 1 in seen)

    def bill(record: sl.Record) -> None:
        follow(record)
        calls.note(record.offset)

    async def ship(record: sl.Record) -> None:
        await asyncio.to_thread(follow, record)
        calls.note(record.offset)

    triggers.on("orders", name="billing", concurrency=2)(ship if is_async else bill)
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 300)
        log.append_many("orders", [sl.Event("order", n) for n in range(100)], partition=0)
        wait_until(lambda: cursors(log, "billing")[0] == 400)

    assert sorted(calls.seen) == list(range(400))


def test_no_more_tasks_wait_at_once_than_concurrency_says() -> None:
    log, most = orders(300), Calls()
    running = 0
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", concurrency=3)
    async def bill(record: sl.Record) -> None:
        nonlocal running
        running += 1
        most.note(running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 300)

    assert max(most.seen) == 3


@ways
def test_no_more_run_at_once_than_concurrency_says(way: Ways) -> None:
    log, lock = orders(600), threading.Lock()
    running, most = 0, Calls()
    triggers = Triggers(log)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        nonlocal running
        with lock:
            running += 1
            most.note(running)
        if record.offset % 50 == 0:
            # Long enough for the others to come, where they may.
            threading.Event().wait(0.001)
        with lock:
            running -= 1

    triggers.on("orders", name="billing", concurrency=3)(way(bill))
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 600)

    assert len(most.seen) == 600
    assert max(most.seen) <= 3


@ways
def test_the_records_of_a_key_are_handled_one_by_one_in_order_also_when_one_fails(
    way: Ways,
) -> None:
    keys = ("a", "b", "c", None)
    log, calls = orders(400, key=lambda n: keys[n % 4]), Calls()
    running: set[str] = set()
    triggers = Triggers(log)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        assert record.key not in running
        if record.key is not None:
            running.add(record.key)
        try:
            if record.offset in {200, 333} and delivery.count < 3:
                raise ValueError("not yet")
            calls.note((record.key, record.offset))
        finally:
            running.discard(record.key or "")

    triggers.on("orders", name="billing", concurrency=4, retry=[0.0, 0.0])(way(bill))
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 400)
        wait_until(lambda: triggers.metrics()["billing"] == Counters(handled=400, retried=4))

    for number, key in enumerate(keys[:3]):
        assert [at for of, at in calls.seen if of == key] == list(range(number, 400, 4))


@ways
def test_a_stop_in_the_middle_settles_what_began_and_hands_back_the_rest(
    way: Ways, log: sl.Log
) -> None:
    calls, counts = Calls(), Calls()
    triggers = Triggers(log)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note(record.offset)
        counts.note(delivery.count)
        if record.offset == 150:
            triggers.request_stop()

    publish(log, range(300))
    triggers.on("orders", name="billing")(way(bill))
    triggers.run()
    assert calls.seen == list(range(151))
    assert cursors(log, "billing")[0] == 151
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 300)

    assert calls.seen == list(range(300))
    assert set(counts.seen) == {1}


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_stuck_function_keeps_from_beginning_is_handed_back_uncounted(
    is_async: bool, log: sl.Log
) -> None:
    counts, gate, is_stuck = Calls(), threading.Event(), threading.Event()
    triggers = Triggers(log, stop_timeout_s=0)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        counts.note((record.offset, delivery.count))
        if (record.offset, delivery.count) == (100, 1):
            is_stuck.set()
            assert gate.wait(20)

    async def ship(record: sl.Record, delivery: sl.Delivery) -> None:
        counts.note((record.offset, delivery.count))
        if (record.offset, delivery.count) == (100, 1):
            is_stuck.set()
            await asyncio.Event().wait()

    publish(log, range(200))
    triggers.on("orders", name="billing")(ship if is_async else bill)
    triggers.start()
    assert is_stuck.wait(20)
    triggers.stop()
    gate.set()
    assert cursors(log, "billing")[0] == 100
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 200)

    expected = [(n, 1) for n in range(101)] + [(n, 2 if n == 100 else 1) for n in range(100, 200)]
    assert counts.seen == expected


@ways
def test_after_a_crash_each_that_was_taken_ahead_is_handled_alone_and_counted(
    way: Ways, open_again: OpenAgain, log: sl.Log
) -> None:
    publish(log, range(60))
    crashed = Consumer(log, "orders", "billing", deliveries_max=None)
    assert len(crashed.fetch(40)) == 40
    del crashed
    running: set[int] = set()
    seen = Calls()
    triggers = Triggers(open_again())

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        running.add(record.offset)
        seen.note((record.offset, delivery.count, len(running)))
        running.discard(record.offset)

    triggers.on("orders", name="billing", concurrency=4)(way(bill))
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 60)

    suspects = [each for each in seen.seen if each[1] == 2]
    assert suspects == [(n, 2, 1) for n in range(40)]
    assert sorted(offset for offset, count, _ in seen.seen if count == 1) == list(range(40, 60))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_lease_that_is_lost_in_the_middle_ends_the_calls_for_its_records(is_async: bool) -> None:
    log, clock, other_clock = orders(400), FakeClock(), FakeClock(seed=1)
    calls, gate, is_there = Calls(), threading.Event(), threading.Event()
    triggers = Triggers(log, clock=clock)

    def bill(record: sl.Record) -> None:
        calls.note(record.offset)
        if record.offset == 200:
            is_there.set()
            assert gate.wait(20)

    async def ship(record: sl.Record) -> None:
        calls.note(record.offset)
        if record.offset == 200:
            is_there.set()
            assert await asyncio.to_thread(gate.wait, 20)

    triggers.on("orders", name="billing")(ship if is_async else bill)
    triggers.start()
    assert is_there.wait(20)
    wait_until(lambda: cursors(log, "billing")[0] == 200)
    with log.consumer("orders", "billing", clock=other_clock) as other:
        # By this clock the lease of the trigger expires; the trigger does not check it.
        other_clock.advance(60)
        other_clock.advance(60)
        assert 0 in other.assigned()
        clock.advance(2)
        gate.set()
        wait_until(lambda: triggers.metrics()["billing"].lost > 0)
        found: list[int] = []
        while cursors(log, "billing")[0] != 400:
            fetched = other.fetch(400)
            found += [each.record.offset for each in fetched]
            other.ack(fetched)
        triggers.stop()

    assert calls.seen == list(range(201))
    assert found == list(range(200, 400))


class JumpingClock(FakeClock):
    """Time may pass without a timer, as for a process that was stopped."""

    skipped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped_s


@ways
def test_a_lease_that_is_in_doubt_in_the_middle_is_renewed_before_it_continues(way: Ways) -> None:
    log, clock, calls = orders(400), JumpingClock(), Calls()
    triggers = Triggers(log, clock=clock)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note(record.offset)
        if record.offset % 100 == 50:
            clock.skipped_s += 60

    def is_over() -> bool:
        clock.advance(1.0)
        return cursors(log, "billing")[0] == 400

    triggers.on("orders", name="billing")(way(bill))
    with triggers:
        wait_until(is_over)

    assert calls.seen == list(range(400))


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@ways
def test_a_call_sees_the_variables_of_the_runner_and_of_no_other_call(way: Ways) -> None:
    log, calls = orders(100), Calls()
    triggers = Triggers(log)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note(variable.get())
        variable.set(f"of {record.offset}")

    triggers.on("orders", name="billing")(way(bill))

    async def program() -> None:
        variable.set("of the program")
        async with triggers:
            await asyncio.to_thread(calls.wait_for, 100)
        assert variable.get() == "of the program"

    asyncio.run(program())

    assert set(calls.seen) == {"of the program"}


def test_a_call_that_cancels_its_own_task_cancels_no_other() -> None:
    log, calls = orders(200), Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", retry=[0.0])
    async def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note((record.offset, delivery.count))
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        if record.offset == 100:
            task.cancel()
        if (record.offset, delivery.count) == (150, 1):
            task.cancel()
            await asyncio.sleep(0)

    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 200)
        wait_until(lambda: triggers.metrics()["billing"] == Counters(handled=200, retried=1))

    assert calls.counted() == {**{(n, 1): 1 for n in range(200)}, (150, 2): 1}


def test_calls_that_wait_have_a_task_each() -> None:
    log, tasks = orders(50), Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", concurrency=4)
    async def bill(record: sl.Record) -> None:
        tasks.note(asyncio.current_task())
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None

    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 50)

    assert len(set(tasks.seen)) == 50


def test_calls_that_never_wait_leave_the_loop_to_other_tasks() -> None:
    log = orders(400)
    triggers = Triggers(log)
    handled = 0

    @triggers.on("orders", name="billing")
    async def bill(record: sl.Record) -> None:
        nonlocal handled
        handled += 1
        threading.Event().wait(0.0002)

    async def program() -> set[int]:
        seen = set()
        async with triggers:
            while handled < 400:
                await asyncio.sleep(0)
                seen.add(handled)
        return seen

    assert len(asyncio.run(program())) > 20


@ways
def test_records_that_wait_for_their_key_come_with_their_value_however_many(way: Ways) -> None:
    log, calls = sl.open("memory:"), Calls()
    log.create_topic("orders", partitions=2)
    large = "x" * 5000
    events = [
        sl.Event("order", {"number": n, "text": large * (n % 2)}, key="a") for n in range(700)
    ]
    log.append_many("orders", events, partition=0)
    triggers = Triggers(log)

    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note((record.payload["number"], len(record.payload["text"])))

    triggers.on("orders", name="billing", concurrency=8, dedupe_key="number")(way(bill))
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 700)

    assert calls.seen == [(n, 5000 * (n % 2)) for n in range(700)]
