"""Functions that are called for records: what a user sees, on every backend."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest

import strandline as sl
from strandline.subscriptions import OUTSTANDING_MAX
from strandline.testing import FakeClock
from strandline.triggers import Counters, Triggers, dead_letters, on, redrive
from tests.logs import OpenAgain
from tests.triggers.calls import CONSUMERS, Calls, cursors, publish, wait_until


def test_a_function_is_called_for_each_record_and_the_cursor_follows(log: sl.Log) -> None:
    calls = Calls()

    @on("orders", name="billing")
    def bill(record: sl.Record) -> None:
        calls.note(record.payload["number"])

    publish(log, [1, 2])
    with Triggers(log, [bill]) as triggers:
        calls.wait_for(2)
        publish(log, [3], partition=1)
        calls.wait_for(3)
        wait_until(lambda: cursors(log, "billing") == [2, 1])

    assert triggers.metrics() == {"billing": Counters(handled=3)}
    assert calls.seen == [1, 2, 3]


def test_async_functions_and_others_run_side_by_side(log: sl.Log) -> None:
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="async")
    async def ship(record: sl.Record) -> None:
        await asyncio.sleep(0)
        calls.note("async")

    @triggers.on("orders", name="sync")
    def bill(record: sl.Record) -> None:
        calls.note("sync")

    publish(log, [1])
    with triggers:
        calls.wait_for(2)

    assert sorted(calls.seen) == ["async", "sync"]
    assert cursors(log, "async")[0] == cursors(log, "sync")[0] == 1


def test_it_runs_on_the_loop_of_an_async_program(log: sl.Log) -> None:
    async def program() -> list[int]:
        seen: list[int] = []
        came = asyncio.Event()
        mine = asyncio.get_running_loop()
        triggers = Triggers(log)

        @triggers.on("orders", name="billing")
        async def bill(record: sl.Record) -> None:
            assert asyncio.get_running_loop() is mine
            seen.append(record.payload["number"])
            came.set()

        async with triggers:
            await log.append("orders", sl.Event("order", {"number": 7}), partition=0)
            async with asyncio.timeout(20):
                await came.wait()
        return seen

    assert asyncio.run(program()) == [7]
    assert cursors(log, "billing")[0] == 1


@pytest.mark.slow
def test_after_a_restart_it_continues_where_it_ended(open_again: OpenAgain, log: sl.Log) -> None:
    calls = Calls()

    @on("orders")
    def bill(record: sl.Record) -> None:
        calls.note(record.payload["number"])

    for number in range(3):
        publish(log, [number])
        with Triggers(open_again(), [bill]):
            calls.wait_for(number + 1)

    assert calls.seen == [0, 1, 2]
    (lag,) = [each for each in log.consumers("orders") if each.partition == 0]
    assert lag.consumer == f"{__name__}.{bill.__qualname__}"


def test_a_failure_is_tried_again_by_its_schedule_with_the_count(clock: FakeClock) -> None:
    calls = Calls()
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)

    @on("orders", name="billing", retry=[5, 60])
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note((record.payload["number"], delivery.count))
        if record.payload["number"] == 1 and delivery.count < 3:
            raise ValueError("no such customer")

    publish(log, [1, 2])
    with Triggers(log, [bill], clock=clock) as triggers:
        assert calls.wait_for(2) == [(1, 1), (2, 1)]
        wait_until(lambda: triggers.metrics()["billing"].retried == 1)
        clock.advance(4.9)
        assert clock.pending_timers == CONSUMERS + 1
        assert cursors(log, "billing")[0] == 0
        clock.advance(0.1)
        assert calls.wait_for(3)[2:] == [(1, 2)]
        wait_until(lambda: triggers.metrics()["billing"].retried == 2)
        clock.advance(59.9)
        assert clock.pending_timers == CONSUMERS + 1
        assert len(calls.seen) == 3
        clock.advance(0.1)
        assert calls.wait_for(4)[3:] == [(1, 3)]
        wait_until(lambda: cursors(log, "billing")[0] == 2)

    assert triggers.metrics()["billing"] == Counters(handled=2, retried=2)


@pytest.mark.slow
def test_after_the_last_retry_a_record_is_dead_lettered_with_its_cause(
    log: sl.Log, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()

    @on("orders", name="billing", retry=[0.0])
    async def bill(record: sl.Record) -> None:
        calls.note(record.payload["number"])
        if record.payload["number"] == 1:
            raise ValueError("no such customer")

    publish(log, [1, 2])
    with caplog.at_level(logging.ERROR, "strandline"), Triggers(log, [bill]) as triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 2)
        wait_until(
            lambda: triggers.metrics()["billing"] == Counters(handled=1, retried=1, dead_lettered=1)
        )

    (letter,) = log.read("__strandline.dead_letters.orders", 0, 0)
    assert letter.payload["number"] == 1
    assert letter.headers["strandline.deliveries"] == "2"
    assert letter.headers["strandline.reason"] == "ValueError: no such customer"
    assert sorted(calls.seen) == [1, 1, 2]
    (told,) = caplog.records
    assert told.__dict__["cause"] == "ValueError: no such customer"
    assert (told.__dict__["topic"], told.__dict__["partition"], told.__dict__["offset"]) == (
        *("orders", 0, 0),
    )


def test_a_failure_that_is_tried_again_is_a_warning_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    publish(log, [1], partition=1)
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", retry=[0.0, 0.0])
    def bill(record: sl.Record) -> None:
        raise ValueError("no such customer")

    with caplog.at_level(logging.WARNING, "strandline"), triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 1)

    *warnings, last = caplog.records
    assert [each.levelname for each in (*warnings, last)] == ["WARNING", "WARNING", "ERROR"]
    for number, each in enumerate(warnings, 1):
        text = each.getMessage()
        assert "trigger billing" in text
        assert f"topic=orders partition=1 offset=0 attempt={number} of=3" in text
        assert "ValueError: no such customer" in text


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), asyncio.CancelledError()])
def test_whatever_a_function_raises_harms_no_other(error: BaseException) -> None:
    calls = Calls()
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    triggers = Triggers(log, stop_timeout_s=1)

    @triggers.on("orders", name="sync", retry=[])
    def bad(record: sl.Record) -> None:
        raise error

    @triggers.on("orders", name="async", retry=[])
    async def worse(record: sl.Record) -> None:
        raise error

    @triggers.on("orders", name="good")
    def good(record: sl.Record) -> None:
        calls.note(record.payload["number"])

    with triggers:
        publish(log, [1, 2])
        calls.wait_for(2)
        wait_until(
            lambda: [triggers.metrics()[name].dead_lettered for name in ("sync", "async")] == [2, 2]
        )

    assert calls.seen == [1, 2]
    # Python makes a RuntimeError of a StopIteration that leaves a coroutine.
    expected = type(error).__name__, "RuntimeError" if isinstance(error, StopIteration) else ""
    for letter in dead_letters(log, "orders"):
        assert letter.reason.startswith(expected[letter.consumer == "async"] or expected[0])


def test_as_many_run_at_once_as_concurrency_says_and_one_of_a_key() -> None:
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    calls, gate = Calls(), threading.Event()

    @on("orders", name="billing", concurrency=3)
    def bill(record: sl.Record) -> None:
        calls.note(("begin", record.key, record.payload["number"]))
        assert gate.wait(20)
        calls.note(("end", record.key, record.payload["number"]))

    for key, number in [("a", 1), ("a", 2), ("b", 1), ("a", 3), (None, 1), ("c", 1)]:
        publish(log, [number], key=key)
    with Triggers(log, [bill], stop_timeout_s=1) as triggers:
        begun = calls.wait_for(3)
        assert begun == [("begin", "a", 1), ("begin", "b", 1), ("begin", None, 1)]
        assert triggers.metrics()["billing"].in_flight == 3
        assert cursors(log, "billing")[0] == 0
        gate.set()
        calls.wait_for(12)

    of_a = [(what, number) for what, key, number in calls.seen if key == "a"]
    assert of_a == [(what, number) for number in (1, 2, 3) for what in ("begin", "end")]
    assert cursors(log, "billing")[0] == 6


def test_a_record_that_waits_for_its_retry_holds_up_its_key_alone(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    calls = Calls()

    @on("orders", name="billing", retry=[60])
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note((record.key, record.payload["number"], delivery.count))
        if (record.key, delivery.count) == ("a", 1) and record.payload["number"] == 1:
            raise ValueError("not yet")

    publish(log, [1, 2], key="a")
    publish(log, [3], key="b")
    with Triggers(log, [bill], clock=clock) as triggers:
        assert calls.wait_for(2) == [("a", 1, 1), ("b", 3, 1)]
        wait_until(lambda: triggers.metrics()["billing"] == Counters(handled=1, retried=1))
        clock.advance(60)
        assert calls.wait_for(4)[2:] == [("a", 1, 2), ("a", 2, 1)]


def test_a_topic_that_there_is_not_is_said_at_the_start() -> None:
    log = sl.open("memory:")

    @on("orders")
    def bill(record: sl.Record) -> None: ...

    triggers = Triggers(log, [bill])
    with pytest.raises(sl.InvalidError, match="topic"):
        triggers.start()
    with pytest.raises(sl.InvalidError, match="topic"):
        triggers.run()
    log.create_topic("orders")
    triggers.start()
    triggers.stop()


@pytest.mark.slow
def test_one_function_may_be_on_several_topics(log: sl.Log) -> None:
    log.create_topic("refunds")
    calls = Calls()

    @on("orders", name="book")
    @on("refunds", name="book")
    def book(record: sl.Record) -> None:
        calls.note(record.topic)

    publish(log, [1])
    log.append("refunds", sl.Event("refund", 1))
    with Triggers(log, [book]) as triggers:
        calls.wait_for(2)
        wait_until(lambda: triggers.metrics()["book"].handled == 2)

    assert sorted(calls.seen) == ["orders", "refunds"]


@pytest.mark.slow
def test_a_second_parameter_with_a_default_is_the_functions_own(log: sl.Log) -> None:
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="own")
    def own(record: sl.Record, tax: float = 0.2) -> None:
        calls.note(tax)

    @triggers.on("orders", name="ours")
    def ours(record: sl.Record, delivery: sl.Delivery | None = None) -> None:
        assert delivery is not None
        calls.note(delivery.count)

    publish(log, [1])
    with triggers:
        calls.wait_for(2)

    assert sorted(calls.seen) == [0.2, 1]


@pytest.mark.slow
def test_a_record_that_takes_long_holds_up_no_more_than_it_must() -> None:
    """What is beyond it is bounded; the rest comes when it has ended."""
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    calls, gate = Calls(), threading.Event()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", concurrency=2)
    async def bill(record: sl.Record) -> None:
        calls.note(record.offset)
        if record.offset == 0:
            await asyncio.to_thread(gate.wait, 20)

    count = OUTSTANDING_MAX + 50
    log.append_many("orders", [sl.Event("order", n) for n in range(count)], partition=0)
    with triggers:
        assert len(calls.wait_for(OUTSTANDING_MAX)) == OUTSTANDING_MAX
        assert cursors(log, "billing")[0] == 0
        gate.set()
        wait_until(lambda: cursors(log, "billing")[0] == count)

    assert calls.seen == list(range(count))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_log_that_is_open_for_consuming_is_enough(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        publish(log, [1, 2, 2])
    is_mended = threading.Event()
    with sl.open(url, mode="consume") as log:
        triggers = Triggers(log)

        @triggers.on("orders", name="billing", dedupe_key="id", retry=[])
        def bill(record: sl.Record) -> None:
            if record.payload["number"] == 1 and not is_mended.is_set():
                raise ValueError("not yet")

        with triggers:
            wait_until(lambda: cursors(log, "billing")[0] == 3)
            is_mended.set()
            redrive(log, "orders")
            wait_until(lambda: triggers.metrics()["billing"].handled == 2)

    assert triggers.metrics()["billing"] == Counters(handled=2, dead_lettered=1, deduplicated=1)


@pytest.mark.slow
def test_a_topic_of_a_tenant_keeps_all_that_triggers_need_with_that_tenant(log: sl.Log) -> None:
    topic = log.create_topic("orders", tenant="acme")
    log.append(topic, sl.Event("order", {"id": 1}))
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on(topic, name="billing", dedupe_key="id", retry=[])
    def bill(record: sl.Record) -> None:
        calls.note(record.tenant)
        if len(calls.seen) == 1:
            raise ValueError("not yet")

    with triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 1)
        assert len(redrive(log, topic)) == 1
        wait_until(lambda: triggers.metrics()["billing"].handled == 1)

    assert calls.seen == ["acme", "acme"]
    assert [t.name for t in log.topics(internal=True) if "schemas" not in t.name] == []
