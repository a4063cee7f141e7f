"""Subscriptions and consumers on every backend: they use the contract only."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from tests.logs import OpenAgain, opened_again

PARTITIONS = 3
PRODUCERS = 3
EVENTS_EACH = 60
PATIENCE_S = 20.0


@pytest.fixture(params=["memory", "file", "sqlite"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    with opened_again(request.param, tmp_path) as open_log:
        open_log().create_topic("orders", partitions=PARTITIONS)
        yield open_log


def test_readers_that_join_at_any_moment_get_every_record_once_in_order(
    open_again: OpenAgain,
) -> None:
    producers = [threading.Thread(target=produce, args=(open_again(), n)) for n in range(PRODUCERS)]
    readers = [open_again() for _ in range(3)]
    seen: list[list[tuple[int, int]]] = [[] for _ in readers]
    followers = [
        threading.Thread(target=follow, args=(log, places))
        for log, places in zip(readers, seen, strict=True)
    ]
    for thread in [*producers[:1], *followers[:2], *producers[1:], *followers[2:]]:
        thread.start()

    for thread in (*producers, *followers):
        thread.join(PATIENCE_S)

    everything = sorted(
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset in range(readers[0].marks("orders", partition).high)
    )
    assert len(everything) == PRODUCERS * EVENTS_EACH
    for places in seen:
        assert sorted(places) == everything
        for partition in range(PARTITIONS):
            offsets = [offset for p, offset in places if p == partition]
            assert offsets == sorted(offsets)


def test_a_loop_follows_what_another_opener_appends(open_again: OpenAgain) -> None:
    writer, reader = open_again(), open_again()

    async def scenario() -> list[int]:
        appending = asyncio.create_task(asyncio.to_thread(produce, writer, 0))
        subscription = sl.subscribe(reader, "orders")
        numbers = []
        async with asyncio.timeout(PATIENCE_S):
            async for record in sl.AsyncSubscription(subscription):
                numbers.append(record.payload["number"])
                if len(numbers) == EVENTS_EACH:
                    break
        await appending
        subscription.close()
        return numbers

    assert sorted(asyncio.run(scenario())) == list(range(EVENTS_EACH))


def test_a_consumer_continues_at_its_cursor_in_any_process(open_again: OpenAgain) -> None:
    log = open_again()
    for number in range(4):
        log.append("orders", sl.Event("order.created", {"number": number}), partition=0)
    with sl.Consumer(log, "orders", "billing") as billing:
        for _ in range(2):
            delivery = billing.next(PATIENCE_S)
            assert delivery is not None
            billing.ack(delivery.record)

    with sl.Consumer(open_again(), "orders", "billing") as billing:
        delivery = billing.next(PATIENCE_S)

    assert delivery is not None
    assert delivery.record.offset == 2
    assert [lag.lag for lag in open_again().consumers("orders")] == [2, 0, 0]


def test_closing_the_log_ends_the_loop(open_again: OpenAgain) -> None:
    log = open_again()
    subscription = sl.subscribe(log, "orders")
    reading = threading.Thread(target=lambda: list(subscription))
    reading.start()

    log.close()
    reading.join(PATIENCE_S)

    assert not reading.is_alive()


def produce(log: sl.Log, producer: int) -> None:
    for number in range(EVENTS_EACH):
        log.append(
            "orders", sl.Event("order.created", {"number": number}, key=f"{producer}.{number}")
        )


def follow(log: sl.Log, places: list[tuple[int, int]]) -> None:
    with sl.subscribe(log, "orders") as subscription:
        while len(places) < PRODUCERS * EVENTS_EACH:
            record = subscription.next(PATIENCE_S)
            assert record is not None
            places.append((record.partition, record.offset))
