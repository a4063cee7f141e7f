"""Redriven dead letters are delivered to the consumer that they come from, and to no other."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.subscriptions import redriven
from strandline.subscriptions.redriving import attempts
from strandline.triggers import Triggers, dead_letters, redrive
from tests.logs import SCHEMES
from tests.subscriptions.doubles import PATIENCE_S, fill
from tests.triggers.calls import wait_until

OpenAgain = Callable[[], sl.Log]


@pytest.fixture(params=SCHEMES)
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    """Return what gives the same log each time, closed in between where it lasts."""
    opened: list[sl.Log] = []

    def open_log() -> sl.Log:
        if opened and request.param == "memory":
            return opened[0]
        for log in opened:
            log.close()
        url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
        opened.append(sl.open(url))
        return opened[-1]

    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 1, 3)
    yield open_log
    for log in opened:
        log.close()


@pytest.fixture
def log(open_again: OpenAgain) -> sl.Log:
    return open_again()


def drain(consumer: sl.Consumer) -> list[tuple[int, int, int]]:
    """Ack all that comes; return partition, offset and count of each."""
    found = []
    while (delivery := consumer.next(0.0)) is not None:
        found.append((delivery.record.partition, delivery.record.offset, delivery.count))
        consumer.ack(delivery.record)
    return [(int(partition), int(offset), count) for partition, offset, count in found]


def dead_letter_first(log: sl.Log, **given: Any) -> None:
    """Let the worker dead-letter the first record, and ack the others."""
    with log.consumer("orders", "worker", **given) as worker:
        delivery = worker.next(0.0)
        assert delivery is not None
        worker.dead_letter(delivery.record, reason="bad")
        drain(worker)


def test_a_redriven_record_reaches_the_consumer_that_runs(log: sl.Log) -> None:
    with log.consumer("orders", "worker", deliveries_max=1) as worker:
        delivery = worker.next(0.0)
        assert delivery is not None
        assert worker.nack(delivery.record, reason="bad")
        assert drain(worker) == [(1, 1, 1), (1, 2, 1)]

        (redriven,) = redrive(log, "orders")

        assert redriven.consumer == "worker"
        again = worker.next(0.0)
        assert again == sl.Delivery(delivery.record, 1)
        worker.ack(again.record)
        assert worker.next(0.0) is None
        assert log.cursor("orders", "worker", 1) == 3


@pytest.mark.slow
def test_a_redriven_record_waits_for_its_consumer_across_restarts(open_again: OpenAgain) -> None:
    dead_letter_first(open_again())
    redrive(open_again(), "orders")
    with open_again().consumer("orders", "other") as other:
        assert [offset for _, offset, _ in drain(other)] == [0, 1, 2]
    with open_again().consumer("orders", "worker") as unfinished:
        first = unfinished.next(0.0)
        assert first is not None

    log = open_again()
    with log.consumer("orders", "worker") as worker:
        assert drain(worker) == [(1, 0, 2)]
    with log.consumer("orders", "worker") as worker:
        assert drain(worker) == []


def test_one_that_fails_again_is_dead_lettered_again_and_can_be_redriven_again(log: sl.Log) -> None:
    dead_letter_first(log)
    with log.consumer("orders", "worker", deliveries_max=2) as worker:
        for times in (1, 2):
            assert len(redrive(log, "orders")) == 1
            seen = []
            for _ in range(2):
                delivery = worker.next(0.0)
                assert delivery is not None
                is_dead_lettered = worker.nack(delivery.record, reason="still bad")
                seen.append((delivery.count, is_dead_lettered))
            assert seen == [(1, False), (2, True)]
            assert worker.next(0.0) is None
            assert len(list(dead_letters(log, "orders"))) == 1 + times


def test_a_redriven_record_that_ends_its_process_each_time_is_dead_lettered_again(
    log: sl.Log,
) -> None:
    dead_letter_first(log)
    redrive(log, "orders")
    for _ in range(2):
        with log.consumer("orders", "worker", deliveries_max=2) as dying:
            assert dying.next(0.0) is not None

    with log.consumer("orders", "worker", deliveries_max=2) as worker:
        assert worker.next(0.0) is None

    *_, last = dead_letters(log, "orders")
    assert (last.consumer, last.deliveries, last.is_redriven) == ("worker", 2, False)


def test_what_no_consumer_can_take_is_refused_and_stays_dead_lettered(log: sl.Log) -> None:
    dead_letter_first(log)
    with log.consumer("orders", "other") as other:
        delivery = other.next(0.0)
        assert delivery is not None
        other.dead_letter(delivery.record, reason="bad")
    log.delete_consumer("orders", "worker")

    with pytest.raises(sl.InvalidError, match="worker"):
        redrive(log, "orders")
    with pytest.raises(sl.InvalidError, match="worker"):
        redrive(log, "orders", consumer="worker")

    assert not any(each.is_redriven for each in dead_letters(log, "orders"))
    assert [each.consumer for each in redrive(log, "orders", consumer="other")] == ["other"]


def test_members_get_what_is_redriven_of_their_own_partitions(log: sl.Log) -> None:
    dead_letter_first(log)
    redrive(log, "orders")
    with (
        log.consumer("orders", "worker", partitions=[0]) as one,
        log.consumer("orders", "worker", partitions=[1]) as two,
    ):
        assert drain(one) == []
        two.assign([])
        one.assign([0, 1])
        assert drain(one) == [(1, 0, 1)]


def test_consumers_of_one_name_but_two_tenants_get_their_own(log: sl.Log) -> None:
    dead_letter_first(log)
    dead_letter_first(log, tenant="acme")

    redriven = redrive(log, "orders")

    assert [each.consumer_tenant for each in redriven] == [None, "acme"]
    for tenant in (None, "acme"):
        with log.consumer("orders", "worker", tenant=tenant) as worker:
            assert drain(worker) == [(1, 0, 1)]


@pytest.mark.slow
def test_a_consumer_on_an_event_loop_gets_it_too(log: sl.Log) -> None:
    dead_letter_first(log)
    redrive(log, "orders")
    worker = log.consumer("orders", "worker")

    async def consume() -> sl.Delivery | None:
        on_loop = sl.AsyncConsumer(worker)
        delivery = await on_loop.next(PATIENCE_S)
        assert delivery is not None
        await on_loop.ack(delivery.record)
        return await on_loop.next(0.0)

    assert asyncio.run(consume()) is None
    worker.close()
    with log.consumer("orders", "worker") as again:
        assert drain(again) == []


def test_a_consumer_on_an_event_loop_finds_at_once_what_is_redriven_while_it_runs(
    log: sl.Log,
) -> None:
    dead_letter_first(log)

    async def consume() -> list[sl.Delivery | None]:
        async with sl.AsyncLog(log).consumer("orders", "worker") as worker:
            before = await worker.next(0.0)
            redrive(log, "orders")
            return [before, await worker.next(0.0)]

    before, after = asyncio.run(consume())

    assert before is None
    assert after is not None
    assert after.record.offset == 0


@pytest.mark.slow
def test_a_trigger_takes_what_a_consumer_of_its_name_has_dead_lettered(log: sl.Log) -> None:
    dead_letter_first(log)
    redrive(log, "orders")
    seen: list[int] = []
    triggers = Triggers(log)
    triggers.on("orders", name="worker")(lambda record: seen.append(record.offset))

    with triggers:
        wait_until(lambda: seen == [0])


def test_a_redrive_topic_of_before_with_one_partition_is_read(log: sl.Log) -> None:
    log.create_topic("__strandline.redriven.orders", internal=True)
    dead_letter_first(log)

    redrive(log, "orders")

    with log.consumer("orders", "worker") as worker:
        assert drain(worker) == [(1, 0, 1)]


def test_a_record_that_was_gone_back_to_as_well_is_acked_once_for_both(log: sl.Log) -> None:
    dead_letter_first(log)
    redrive(log, "orders")
    log.seek("orders", "worker", 1, 0)
    with log.consumer("orders", "worker") as worker:
        deliveries = [worker.next(0.0) for _ in range(2)]
        assert [each.record.offset for each in deliveries if each] == [0, 0]
        assert deliveries[1] is not None

        worker.ack(deliveries[1].record)

        assert log.cursor("orders", "worker", 1) == 1
        assert drain(worker) == [(1, 1, 1), (1, 2, 1)]
    with log.consumer("orders", "worker") as worker:
        assert drain(worker) == []


@pytest.mark.parametrize("settle", [sl.Consumer.ack, sl.Consumer.dead_letter])
def test_a_redriven_record_that_was_settled_is_acked_with_those_before_it_after_a_seek(
    log: sl.Log, settle: Callable[..., object]
) -> None:
    with log.consumer("orders", "worker") as worker:
        *_, last = (worker.next(0.0) for _ in range(3))
        assert last is not None
        worker.dead_letter(last)
        redrive(log, "orders")
        settle(worker, worker.next(0.0))

        worker.seek(1, 0)
        *_, last = (worker.next(0.0) for _ in range(3))
        assert last is not None
        worker.ack(last, up_to=True)

        assert log.cursor("orders", "worker", 1) == 3


def test_a_consumer_that_looks_for_nothing_is_found_out(log: sl.Log) -> None:
    with (
        mock.patch.object(redriven.Redriven, "_step", return_value=False),
        pytest.raises(AssertionError),
    ):
        test_a_redriven_record_reaches_the_consumer_that_runs(log)


def test_the_ack_of_a_redriven_record_returns_the_cursor(log: sl.Log) -> None:
    dead_letter_first(log)
    redrive(log, "orders")

    with log.consumer("orders", "worker") as worker:
        delivery = worker.next(0.0)
        assert delivery is not None
        assert (
            worker.ack(delivery) == log.cursor("orders", "worker", delivery.record.partition) == 3
        )
    with log.consumer("orders", "worker", partitions=[0]) as other:
        assert other.next(0.0) is None


def test_attempts_are_looked_up_in_the_log_for_threads(log: sl.Log) -> None:
    with pytest.raises(sl.InvalidError, match=r"log\.blocking"):
        attempts(sl.AsyncLog(log), "orders", 0)  # type: ignore[arg-type]
