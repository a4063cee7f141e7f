"""A consumer's calls decode no more cursors in a topic of many partitions than of few."""

from collections.abc import Callable
from unittest import mock

import pytest

import strandline as sl
from strandline.log import Log, parts_of, stored_cursors
from strandline.log.lags import ConsumerCursor
from strandline.testing import FakeClock

EVENT = sl.Event("sale", {"n": 1})


Opening = Callable[[Log, FakeClock], object]


def opened_alone(log: Log, clock: FakeClock) -> None:
    log.consumer("t", "billing", clock=clock).close()


def opened_with_every_partition(log: Log, clock: FakeClock) -> None:
    log.consumer("t", "billing", group=False, clock=clock).close()


def opened_beside_another(log: Log, clock: FakeClock) -> None:
    first, second = (log.consumer("t", "billing", clock=clock) for _ in range(2))
    with first, second:
        clock.advance(5)
        clock.advance(5)
        assert len(first.assigned()) == len(second.assigned())


@pytest.mark.parametrize("call", [opened_alone, opened_with_every_partition, opened_beside_another])
def test_a_consumer_of_many_partitions_reads_its_cursors_as_often_as_one_of_few(
    call: Opening,
) -> None:
    def read(partitions: int) -> int:
        clock = FakeClock()
        with sl.open("memory:", clock=clock) as log:
            log.create_topic("t", partitions=partitions)
            before = stored_cursors.decode_consumer.cache_info()
            call(log, clock)
            after = stored_cursors.decode_consumer.cache_info()
            return after.hits + after.misses - before.hits - before.misses

    assert read(64) == read(4)


Acking = Callable[[Log, FakeClock], object]


def acked_at_once(log: Log, clock: FakeClock) -> None:
    with log.consumer("t", "billing", clock=clock) as consumer:
        consumer.ack(consumer.fetch(timeout_s=0))


def acked_and_committed(log: Log, clock: FakeClock) -> None:
    with log.consumer("t", "billing", commit_every_s=60.0, clock=clock) as consumer:
        consumer.ack(consumer.fetch(timeout_s=0))
        consumer.commit()


def acked_and_closed(log: Log, clock: FakeClock) -> None:
    with log.consumer("t", "billing", commit_every_s=60.0, clock=clock) as consumer:
        consumer.ack(consumer.fetch(timeout_s=0))


def acked_with_a_gap(log: Log, clock: FakeClock) -> None:
    with log.consumer("t", "billing", clock=clock) as consumer:
        first, *others = consumer.fetch(timeout_s=0)
        consumer.nack(first, delay_s=60.0)
        consumer.ack(others)


def acked_and_handed_over(log: Log, clock: FakeClock) -> None:
    with log.consumer("t", "billing", commit_every_s=60.0, clock=clock) as consumer:
        consumer.ack(consumer.fetch(timeout_s=0))
        consumer.assign([])


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [acked_at_once, acked_and_committed, acked_and_closed, acked_with_a_gap, acked_and_handed_over],
)
def test_an_ack_of_many_partitions_reads_its_cursors_as_often_as_one_of_few(call: Acking) -> None:
    def decoded(partitions: int) -> int:
        clock = FakeClock()
        with sl.open("memory:", clock=clock) as log:
            log.create_topic("t", partitions=partitions)
            for partition in range(partitions):
                log.append("t", EVENT, partition=partition)
            before = stored_cursors.decode_consumer.cache_info().misses
            call(log, clock)
            return stored_cursors.decode_consumer.cache_info().misses - before

    assert decoded(64) == decoded(4)


def test_a_member_of_a_work_queue_reads_its_cursors_once_for_all_partitions() -> None:
    def read(partitions: int) -> int:
        clock = FakeClock()
        with sl.open("memory:", clock=clock) as log:
            log.create_topic("t", partitions=partitions)
            with log.consumer("t", "billing", shared=True, clock=clock) as worker:
                clock.advance(60)
                before = stored_cursors.decode_consumer.cache_info()
                assert worker.next(timeout_s=0) is None
                assert sum(worker.lag().values()) == 0
                after = stored_cursors.decode_consumer.cache_info()
                return after.hits + after.misses - before.hits - before.misses

    assert read(64) == read(4)


def consumer_of(log: Log) -> sl.Consumer:
    return log.consumer("t", "billing")


def worker_of(log: Log) -> sl.SharedConsumer:
    return log.consumer("t", "billing", shared=True)


@pytest.mark.parametrize("opened_on", [consumer_of, worker_of])
def test_an_ack_decodes_no_cursor_of_a_partition_that_it_does_not_name(
    opened_on: Callable[[Log], sl.Consumer | sl.SharedConsumer],
) -> None:
    decode = stored_cursors.decode_cursor

    def decoded(partitions: int) -> int:
        found: list[int] = []

        def counted(part: bytes) -> ConsumerCursor:
            cursor = decode(part)
            found.append(cursor.partition)
            return cursor

        with sl.open("memory:") as log:
            log.create_topic("t", partitions=partitions)
            log.append("t", EVENT, partition=0)
            with opened_on(log) as consumer:
                deliveries = consumer.fetch(timeout_s=5)
                with mock.patch.object(stored_cursors, "decode_cursor", counted):
                    consumer.ack(deliveries)
        return len(found)

    assert decoded(64) == decoded(4)


def test_a_cursor_is_stored_without_the_fields_that_say_nothing() -> None:
    """All cursors of a consumer are one value, which each of its acks writes."""
    with sl.open("memory:") as log:
        log.create_topic("t", partitions=64)
        log.register("t", "billing", dict.fromkeys(range(64), 0))

        (stored,) = parts_of(log).store.keys(parts_of(log).store.topics()[0]).values()

    assert b"settled" not in stored
    assert len(stored) < 64 * 220
