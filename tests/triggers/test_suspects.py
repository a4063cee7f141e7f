"""Records in flight when a process ended are handled alone; one that ends it is dead-lettered."""

import asyncio
import contextlib
import threading
from unittest import mock

import pytest

import strandline as sl
from strandline.subscriptions import Consumer
from strandline.subscriptions.outstanding import Attempts
from strandline.testing import FakeClock
from strandline.triggers import Counters, Triggers, dead_letters, gate
from strandline.triggers.gate import ALONE_S, Gate
from tests.triggers.calls import CONSUMERS, Calls, cursors, publish, wait_until


def crash(log: sl.Log, name: str, count: int) -> None:
    """Take records as a trigger does, and never come back."""
    consumer = Consumer(log, "orders", name, deliveries_max=None)
    for _ in range(count):
        assert consumer.next(1.0) is not None


@pytest.mark.slow
def test_suspects_are_handled_one_at_a_time_across_triggers_and_the_rest_at_once(
    log: sl.Log,
) -> None:
    publish(log, range(12))
    for name in ("billing", "shipping"):
        crash(log, name, 4)
    calls, overlaps = Calls(), Calls()
    running: set[tuple[str, int]] = set()
    lock = threading.Lock()
    triggers = Triggers(log)

    def handle(name: str, record: sl.Record, delivery: sl.Delivery) -> None:
        with lock:
            running.add((name, record.offset))
            overlaps.note((delivery.count, set(running)))
        calls.note((name, record.offset))
        threading.Event().wait(0.002)
        with lock:
            running.discard((name, record.offset))

    for name in ("billing", "shipping"):
        triggers.on("orders", name=name, concurrency=8)(
            lambda record, delivery, name=name: handle(name, record, delivery)
        )
    with triggers:
        calls.wait_for(24)
        wait_until(lambda: cursors(log, "billing")[0] == cursors(log, "shipping")[0] == 12)

    suspects = [beside for count, beside in overlaps.seen if count > 1]
    assert len(suspects) >= 8
    assert all(len(beside) == 1 for beside in suspects)
    assert calls.counted().most_common(1)[0][1] == 1


def test_a_suspect_that_fails_has_its_whole_schedule(log: sl.Log) -> None:
    publish(log, [1])
    crash(log, "billing", 1)
    counts = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", retry=[0.0, 0.0])
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        counts.note(delivery.count)
        raise ValueError("no such customer")

    with triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 1)

    assert counts.seen == [2, 3, 4]
    assert triggers.metrics()["billing"] == Counters(retried=2, dead_lettered=1)


@pytest.mark.slow
def test_a_record_that_ended_its_process_alone_too_often_is_dead_lettered_without_a_call(
    log: sl.Log, caplog: pytest.LogCaptureFixture
) -> None:
    publish(log, [1, 2])
    crash(log, "billing", 2)
    for _ in range(2):
        consumer = Consumer(log, "orders", "billing", deliveries_max=None)
        delivery = consumer.next(1.0)
        assert delivery is not None
        consumer.begin_alone(delivery.record)
        del consumer
    calls = Calls()
    triggers = Triggers(log)
    triggers.on("orders", name="billing", retry=[0.0])(lambda r: calls.note(r.offset))

    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 2)

    assert calls.seen == [1]
    (letter,) = dead_letters(log, "orders")
    assert (letter.record_offset, letter.deliveries) == (0, 3)
    assert "TooOftenError" in letter.reason
    assert [each.__dict__["deliveries"] for each in caplog.records] == [3]


def test_what_is_taken_while_a_suspect_is_alone_takes_nothing_off_it(log: sl.Log) -> None:
    publish(log, range(2))
    crash(log, "billing", 2)
    publish(log, range(2))
    handling = Consumer(log, "orders", "billing", deliveries_max=None)
    suspect, *others = (handling.next(1.0) for _ in range(2))
    assert suspect is not None
    handling.begin_alone(suspect.record)
    others += [handling.next(1.0) for _ in range(2)]
    del handling

    later = Consumer(log, "orders", "billing", deliveries_max=None)
    found = [later.next(1.0) for _ in range(4)]
    attempts = [later.attempts(each.record) for each in found if each is not None]

    assert None not in others
    assert attempts[0] == Attempts(shared=1, alone=1)
    assert attempts[1:] == [Attempts(shared=1)] * 3


@pytest.mark.slow
def test_after_an_orderly_stop_there_are_no_suspects(log: sl.Log) -> None:
    publish(log, range(40))
    calls, counts = Calls(), Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", concurrency=8)
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        counts.note(delivery.count)
        calls.note(record.offset)
        if record.offset == 10:
            triggers.request_stop()

    triggers.run()
    handled = len(calls.seen)
    with triggers:
        calls.wait_for(40)

    assert handled < 40
    assert counts.counted() == {1: 40}


def test_a_suspect_that_waits_for_its_retry_holds_nothing_up(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    publish(log, [1, 2, 3])
    crash(log, "billing", 1)
    calls = Calls()
    triggers = Triggers(log, clock=clock)

    @triggers.on("orders", name="billing", retry=[3600], concurrency=2)
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        calls.note((record.offset, delivery.count))
        if delivery.count == 2:
            raise ValueError("not yet")

    with triggers:
        assert sorted(calls.wait_for(3)) == [(0, 2), (1, 1), (2, 1)]
        wait_until(lambda: triggers.metrics()["billing"].retried == 1)
        clock.advance(3600)
        assert calls.wait_for(4)[3] == (0, 3)


def test_a_suspect_that_takes_hours_holds_others_up_for_a_minute(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    publish(log, [1, 2])
    crash(log, "billing", 1)
    calls, ends = Calls(), threading.Event()
    triggers = Triggers(log, clock=clock)

    @triggers.on("orders", name="billing", concurrency=2)
    def bill(record: sl.Record) -> None:
        calls.note(record.offset)
        if record.offset == 0:
            assert ends.wait(20)

    before = clock.pending_timers
    with triggers, contextlib.ExitStack() as cleanup:
        cleanup.callback(ends.set)
        assert calls.wait_for(1) == [0]
        wait_until(lambda: clock.pending_timers == before + CONSUMERS + 1)
        clock.advance(ALONE_S)
        assert calls.wait_for(2) == [0, 1]


@pytest.mark.slow
def test_a_key_function_is_called_for_a_suspect_only_when_it_is_alone(log: sl.Log) -> None:
    publish(log, [1, 2])
    crash(log, "billing", 2)
    order = Calls()
    triggers = Triggers(log)

    def key(record: sl.Record) -> int:
        order.note(("key", record.offset))
        return record.offset

    begin = Consumer.begin_alone

    def begin_alone(consumer: Consumer, delivery: sl.Delivery) -> None:
        begin(consumer, delivery)
        order.note(("alone", delivery.record.offset))

    triggers.on("orders", name="billing", dedupe_key=key)(lambda r: order.note(("call", r.offset)))
    with mock.patch.object(Consumer, "begin_alone", begin_alone), triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 2)

    steps = [(what, n) for n in (0, 1) for what in ("alone", "key", "call")]
    assert order.seen == steps


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["a gate that is always open", "a lapse that never comes"])
def test_a_planted_bug_is_found(bug: str) -> None:
    def overlapping() -> None:
        log = sl.open("memory:")
        log.create_topic("orders", partitions=2)
        test_suspects_are_handled_one_at_a_time_across_triggers_and_the_rest_at_once(log)

    def lapsing() -> None:
        with mock.patch("tests.triggers.calls.PATIENCE_S", 1.0):
            test_a_suspect_that_takes_hours_holds_others_up_for_a_minute(FakeClock())

    open_gate = mock.patch.object(Gate, "may_begin", return_value=True)
    no_lapse = mock.patch.object(gate, "ALONE_S", 10 * ALONE_S)
    patch, scenario = (open_gate, overlapping) if "open" in bug else (no_lapse, lapsing)
    scenario()

    with patch, pytest.raises(AssertionError):
        scenario()


def test_a_gate_lets_others_in_when_the_suspect_has_left() -> None:
    class Trigger:
        must_run_alone = False
        begun = 0

        def begin_ready(self) -> None:
            self.begun += 1

    async def program() -> None:
        opened, other = Gate(FakeClock()), Trigger()
        opened.join(other)
        opened.enter("a", alone=False)
        assert not opened.may_begin(alone=True)
        other.must_run_alone, opened.suspects = True, 1
        assert not opened.may_begin(alone=False)
        assert opened.leave("a")
        opened.begin_all()
        assert other.begun == 1
        other.must_run_alone, opened.suspects = False, 0
        opened.enter("suspect", alone=True)
        assert not opened.may_begin(alone=False)
        assert opened.leave("suspect")
        opened.enter("b", alone=False)
        assert opened.may_begin(alone=False)
        assert not opened.leave("b")

    asyncio.run(program())
