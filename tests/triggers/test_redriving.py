"""Dead letters: listed, and redriven to their trigger, once."""

import base64
import threading
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.subscriptions import redriving
from strandline.testing import FakeClock
from strandline.triggers import Counters, Triggers, dead_letters, redrive
from tests.triggers.calls import Calls, cursors, publish, wait_until


class Faulty:
    """A trigger whose function fails for some numbers, until it is fixed."""

    def __init__(self, log: sl.Log, name: str, fails_for: set[int]) -> None:
        self.calls = Calls()
        self.fails_for = fails_for
        self.triggers = Triggers(log)
        self.triggers.on("orders", name=name, retry=[])(self.handle)

    def handle(self, record: sl.Record) -> None:
        number = record.payload["number"]
        self.calls.note((record.partition, record.offset, number))
        if number in self.fails_for:
            raise ValueError(number)


def work_off(log: sl.Log, *faulty: Faulty) -> None:
    """Run the triggers until there is nothing more for them."""
    for each in faulty:
        with each.triggers:
            (name,) = each.triggers.metrics()
            wait_until(partial(is_done, log, name))


def is_done(log: sl.Log, name: str) -> bool:
    """Return whether no record waits for a trigger, redriven ones included."""
    redriven = log.topic("__strandline.redriven.orders")
    topics: list[Any] = [("orders", 0), ("orders", 1), (redriven, 0), (redriven, 1)]
    return all(
        log.marks(topic, partition).high == (log.cursor(topic, name, partition) or 0)
        for topic, partition in topics
    )


@pytest.mark.slow
def test_dead_letters_go_to_their_trigger_once_more_and_to_no_other(log: sl.Log) -> None:
    publish(log, [1, 2])
    publish(log, [3], partition=1)
    billing, shipping = Faulty(log, "billing", {1, 3}), Faulty(log, "shipping", set())
    work_off(log, billing, shipping)
    assert {
        (each.consumer, each.partition, each.record_offset, each.reason, each.is_redriven)
        for each in dead_letters(log, "orders")
    } == {
        ("billing", 0, 0, "ValueError: 1", False),
        ("billing", 1, 0, "ValueError: 3", False),
    }

    billing.fails_for.clear()
    redriven = redrive(log, "orders")
    work_off(log, billing, shipping)

    assert [each.offset for each in redriven] == [0, 1]
    assert sorted(billing.calls.seen[3:]) == [(0, 0, 1), (1, 0, 3)]
    assert len(shipping.calls.seen) == 3
    assert billing.triggers.metrics()["billing"] == Counters(handled=2)
    assert shipping.triggers.metrics()["shipping"] == Counters(passed_over=2)
    assert [log.marks("orders", partition).high for partition in range(2)] == [2, 1]
    assert redrive(log, "orders") == []
    assert all(each.is_redriven for each in dead_letters(log, "orders"))


@pytest.mark.slow
def test_what_fails_again_is_dead_lettered_again_and_can_be_redriven_again(log: sl.Log) -> None:
    publish(log, [1])
    billing = Faulty(log, "billing", {1})
    work_off(log, billing)
    for times in (1, 2):
        assert len(redrive(log, "orders")) == 1
        work_off(log, billing)
        assert len(list(dead_letters(log, "orders"))) == 1 + times
    billing.fails_for.clear()
    redrive(log, "orders")
    work_off(log, billing)

    assert billing.calls.seen == [(0, 0, 1)] * 4
    assert redrive(log, "orders") == []
    assert [each.is_redriven for each in dead_letters(log, "orders")] == [True] * 3


@pytest.mark.slow
def test_two_processes_that_redrive_at_once_redrive_each_once(
    log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(log, [1])
    billing = Faulty(log, "billing", {1})
    work_off(log, billing)

    redriven = redrive(log, "orders")
    # The other one has looked before the first has redriven.
    monkeypatch.setattr(redriving, "redriven_letters", lambda *_: set())

    assert len(redriven) == 1
    assert redrive(log, "orders") == []
    assert log.marks("__strandline.redriven.orders", 0).high == 1


@pytest.mark.slow
def test_a_runner_at_work_gets_them_at_once(log: sl.Log) -> None:
    publish(log, [1])
    billing = Faulty(log, "billing", {1})
    with billing.triggers as triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 1)
        billing.fails_for.clear()
        redrive(log, "orders")
        wait_until(lambda: triggers.metrics()["billing"].handled == 1)


@pytest.mark.slow
def test_of_one_consumer_or_by_their_offsets(log: sl.Log) -> None:
    publish(log, [1, 2])
    billing, shipping = Faulty(log, "billing", {1, 2}), Faulty(log, "shipping", {2})
    work_off(log, billing, shipping)

    assert [each.consumer for each in redrive(log, "orders", consumer="shipping")] == ["shipping"]
    assert [each.offset for each in redrive(log, "orders", offsets=[1, 2, 99])] == [1]
    assert [each.offset for each in redrive(log, "orders")] == [0]
    assert [each.offset for each in dead_letters(log, "orders", consumer="shipping")] == [2]


def test_no_dead_letter_is_nothing_to_redrive(log: sl.Log) -> None:
    assert redrive(log, "orders") == []
    assert list(dead_letters(log, "orders")) == []
    with pytest.raises(sl.InvalidError):
        redrive(log, "no-such-topic")


@pytest.mark.slow
def test_a_dead_letter_outlives_its_original(log: sl.Log) -> None:
    event = sl.Event("order", {"number": 1}, key="k", headers={"trace": "t1"})
    log.append("orders", event, partition=0)
    billing = Faulty(log, "billing", {1})
    work_off(log, billing)
    log.trim("orders", 0, 1)
    seen: list[sl.Record] = []
    again = Triggers(log)
    again.on("orders", name="billing")(seen.append)

    redrive(log, "orders")
    with again:
        wait_until(lambda: len(seen) == 1)

    (record,) = seen
    assert (record.topic, record.partition, record.offset, record.key) == ("orders", 0, 0, "k")
    assert record.event == event


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sl.ValueKind.BYTES, sl.ValueKind.BATCH])
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_bytes_and_batches_come_back_as_they_were(
    log: sl.Log, kind: sl.ValueKind, *, is_trimmed: bool
) -> None:
    log.create_topic("raw", value_kind=kind)
    value: Any = pa.RecordBatch.from_pydict({"n": [1, None], "s": ["a", "b"]})
    value = value if kind is sl.ValueKind.BATCH else base64.b64decode("AAECgA==")
    log.append("raw", value, key="k")
    given: list[sl.Record] = []
    triggers = Triggers(log)

    @triggers.on("raw", name="reader", retry=[])
    def read(record: sl.Record) -> None:
        given.append(record)
        if len(given) == 1:
            raise ValueError("not yet")

    with triggers:
        wait_until(lambda: triggers.metrics()["reader"].dead_lettered == 1)
        if is_trimmed:
            log.trim("raw", 0, 1)
        redrive(log, "raw")
        wait_until(lambda: triggers.metrics()["reader"].handled == 1)

    first, second = given
    assert first.value == second.value == value
    assert (second.partition, second.offset, second.key) == (0, 0, "k")


@pytest.mark.slow
def test_retries_of_a_redriven_record_are_counted_from_one(log: sl.Log) -> None:
    counts: list[int] = []
    triggers = Triggers(log)

    @triggers.on("orders", name="billing", retry=[0.0])
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        counts.append(delivery.count)
        if len(counts) < 4:
            raise ValueError("not yet")

    publish(log, [1])
    with triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 1)
        redrive(log, "orders")
        wait_until(lambda: triggers.metrics()["billing"].handled == 1)

    assert counts == [1, 2, 1, 2]
    assert cursors(log, "billing")[0] == 1


@pytest.mark.slow
def test_a_key_waits_behind_its_dead_letter_until_that_was_redriven(log: sl.Log) -> None:
    for number, key in enumerate("aabab"):
        log.append("orders", sl.Event("placed", {"number": number}, key=key), partition=0)
    calls, is_broken = Calls(), True

    def handle(record: sl.Record) -> None:
        calls.note(record.payload["number"])
        if is_broken and record.payload["number"] == 0:
            raise ValueError

    runner = Triggers(log)
    runner.on("orders", name="billing", retry=[0.0], on_dead_letter="block-key")(handle)
    with runner:
        wait_until(lambda: 4 in calls.seen and bool(list(dead_letters(log, "orders"))))
    blocked = list(calls.seen)
    is_broken = False
    with runner:
        redrive(log, "orders")
        wait_until(lambda: 3 in calls.seen)

    assert [each for each in blocked if each in (1, 3)] == []
    assert calls.seen[len(blocked) :] == [0, 1, 3]


def test_records_of_a_blocking_key_follow_one_another_without_a_wait() -> None:
    clock = FakeClock()
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    publish(log, [1, 2, 3], key="a")
    calls, gate = Calls(), threading.Semaphore(0)

    def handle(record: sl.Record) -> None:
        if record.key == "a":
            calls.note(record.offset)
            assert gate.acquire(timeout=20)

    runner = Triggers(log, clock=clock)
    runner.on("orders", name="billing", concurrency=3, on_dead_letter="block-key")(handle)
    with runner:
        for handled, count in enumerate((1, 2, 3)):
            calls.wait_for(count)
            # Once another key's record is settled, the runner waits for more.
            publish(log, [0], key="b")
            due = 2 * handled + 1
            wait_until(lambda: runner.metrics()["billing"].handled == due)  # noqa: B023 - Used here only.
            # No time passes.
            gate.release()

    assert calls.seen == [0, 1, 2]
