"""Brokers carry wake-ups and list subscriptions; only latency depends on them."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import strandline as sl
from strandline.log import TopicName
from strandline.testing import FaultyBroker
from strandline.values import InvalidError

PATIENCE_S = 30.0


@pytest.fixture(params=["memory:", "file:", "sqlite:"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    scheme = str(request.param)
    return scheme if scheme == "memory:" else f"{scheme}{tmp_path / 'events'}"


@pytest.fixture
def broker() -> FaultyBroker:
    return FaultyBroker()


@pytest.fixture
def log(url: str, broker: FaultyBroker) -> Iterator[sl.Log]:
    with sl.open(url, broker=broker) as log:
        log.create_topic("orders")
        yield log


def event(number: int) -> sl.Event:
    return sl.Event("order", {"n": number})


def offsets(subscription: sl.Subscription[sl.Record], count: int) -> list[int]:
    records = [subscription.next(PATIENCE_S) for _ in range(count)]
    return [record.offset for record in records if record is not None]


def test_live_subscriptions_are_listed_until_they_are_closed_tc17(
    log: sl.Log, broker: FaultyBroker
) -> None:
    """TC17."""
    topic = log.topic("orders")
    first = log.subscribe("orders", consumer="first")
    second = log.subscribe("orders", consumer="second", tenant="acme")
    for number in range(3):
        log.append("orders", event(number))
    assert offsets(first, 3) == offsets(second, 3) == [0, 1, 2]

    listed = {(live.name, live.tenant, live.topic) for live in broker.live(topic)}
    second.close()
    second.close()
    left = [live.name for live in broker.live(topic)]
    first.close()

    assert listed == {("first", None, topic), ("second", "acme", topic)}
    assert left == ["first"]
    assert broker.live() == []


def test_a_consumer_is_listed_by_its_name(log: sl.Log, broker: FaultyBroker) -> None:
    with log.consumer("orders", "billing", tenant="acme"):
        assert [(live.name, live.tenant) for live in broker.live()] == [("billing", "acme")]

    assert broker.live() == []


def test_a_publish_succeeds_though_its_wake_up_fails_and_is_logged_tc18(
    log: sl.Log, broker: FaultyBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """TC18."""
    subscription = log.subscribe("orders", start=sl.LATEST)
    broker.fail_next_publish("the line is down")

    with caplog.at_level(logging.WARNING, "strandline.broker"):
        receipt = log.append("orders", event(0))
    again = log.append("orders", event(1))

    assert (receipt.offset, again.offset, broker.published) == (0, 1, 2)
    assert offsets(subscription, 2) == [0, 1]
    assert "the line is down" in caplog.text
    assert len(caplog.records) == 1


def test_what_was_committed_is_replayed_after_a_failed_wake_up_tc19(
    url: str, log: sl.Log, broker: FaultyBroker
) -> None:
    """TC19."""
    for number in range(64):
        if number == 7:
            broker.fail_next_publish("the line is down")
        log.append("orders", event(number))
    if url == "memory:":
        assert offsets(log.subscribe("orders"), 64) == list(range(64))
        return
    log.close()

    with sl.open(url, broker=FaultyBroker()) as again:
        assert offsets(again.subscribe("orders"), 64) == list(range(64))


def test_a_live_tail_continues_without_loss_after_a_failed_wake_up_tc20(
    log: sl.Log, broker: FaultyBroker
) -> None:
    """TC20."""
    for number in range(10):
        if number == 4:
            broker.fail_next_publish("the line is down")
        log.append("orders", event(number))

    subscription = log.subscribe("orders", start=0)
    for number in range(10):
        log.append("orders", event(number))

    assert offsets(subscription, 20) == list(range(20))
    assert subscription.next(0) is None


@pytest.mark.parametrize("scheme", ["file:", "sqlite:"])
def test_a_subscriber_finds_the_last_event_though_its_wake_up_was_lost_wc2(
    scheme: str, tmp_path: Path
) -> None:
    """WC2, WC4: the subscriber and the publisher share nothing but the store."""
    url = f"{scheme}{tmp_path / 'events'}"
    broker = FaultyBroker()
    with sl.open(url, broker=broker) as writer, sl.open(url, broker=broker) as reader:
        writer.create_topic("orders")
        subscription = reader.subscribe("orders")
        assert subscription.next(0) is None
        broker.fail_next_publish("the line is down")
        writer.append("orders", event(0))

        assert offsets(subscription, 1) == [0]
        assert reader.append("orders", event(1)).offset == 1
        assert writer.append("orders", event(2)).offset == 2


@pytest.mark.slow
def test_a_reader_that_lags_gets_everything_wc3(log: sl.Log) -> None:
    """WC3."""
    subscription = log.subscribe("orders", read_ahead=8)
    log.append_many("orders", [event(number) for number in range(3000)])

    assert offsets(subscription, 3000) == list(range(3000))


def test_a_consumers_progress_is_nothing_until_the_first_and_acks_are_apart_wc11(
    log: sl.Log,
) -> None:
    """WC11."""
    log.append("orders", event(0))
    scope = log.scope()
    subscription = scope.subscribe("orders", start=0, consumer="billing")

    def progress() -> list[tuple[int | None, int | None, int]]:
        return [(each.delivered, each.acked, each.lag) for each in scope.consumers("orders")]

    before = progress()
    subscription.next(PATIENCE_S)
    delivered = progress()
    log.ack("orders", "billing", 0, 1)

    assert before == [(None, None, 1)]
    assert delivered[0][:2] == (0, None)
    assert progress() == [(0, 0, 0)]


def test_a_broker_whose_every_call_fails_costs_time_and_nothing_else(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenBroker(FaultyBroker):
        def publish(self, topic: TopicName, /) -> None:
            raise OSError(f"no wake-up for {topic}")

        def attach(self, *_: object) -> NoReturn:
            raise OSError("no list")

    with sl.open(url, broker=BrokenBroker()) as log:
        log.create_topic("orders")
        with log.subscribe("orders") as subscription:
            log.append_many("orders", [event(0), event(1)])
            assert offsets(subscription, 2) == [0, 1]

    assert {record.name for record in caplog.records} == {"strandline.broker"}


def test_an_append_on_an_event_loop_is_announced_when_it_is_settled(url: str) -> None:
    class CountingBroker(FaultyBroker):
        def __init__(self) -> None:
            super().__init__()
            self.is_done = asyncio.Event()

        def publish(self, topic: TopicName, /) -> None:
            super().publish(topic)
            if self.published == 20:
                self.is_done.set()

    async def append(log: sl.Log, broker: CountingBroker) -> None:
        for receipt in [log.append("orders", event(number)) for number in range(20)]:
            await receipt
        await asyncio.wait_for(broker.is_done.wait(), PATIENCE_S)

    broker = CountingBroker()
    with sl.open(url, broker=broker) as log:
        log.create_topic("orders")
        asyncio.run(append(log, broker))

    assert broker.published == 20


def test_a_transaction_is_announced_once_for_each_topic_and_after_its_commit(
    tmp_path: Path, broker: FaultyBroker
) -> None:
    with sl.open(f"sqlite:{tmp_path / 'events'}", broker=broker) as log:
        for name in ("orders", "bills"):
            log.create_topic(name)
        with log.transaction():
            log.append("orders", event(0))
            log.append_many("orders", [event(1), event(2)])
            log.append("bills", event(3))
            inside = broker.published
        after = broker.published
        with pytest.raises(ZeroDivisionError), log.transaction():
            print(log.append("orders", event(4)).offset // 0)  # noqa: T201 - It never does.

    assert (inside, after, broker.published) == (0, 2, 2)


def test_a_memory_log_with_a_broker_has_no_transactions_either(broker: FaultyBroker) -> None:
    with sl.open("memory:", broker=broker) as log, pytest.raises(InvalidError, match="sqlite:"):
        log.transaction()
