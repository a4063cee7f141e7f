"""CaughtUp and FellBehind: always delivered if requested, and at the right place."""

import asyncio
from collections.abc import Iterator

import pytest

from strandline.subscriptions import AsyncSubscription, CaughtUp, FellBehind, subscribe
from strandline.values import LATEST, Offset, Partition, Record, Topic
from tests.subscriptions.doubles import PATIENCE_S, SteeredLog, drain, fill, places, take

P0 = Partition(0)


@pytest.fixture
def steered() -> Iterator[SteeredLog]:
    log = SteeredLog()
    log.create_topic("orders", partitions=2)
    yield log
    log.inner.close()


@pytest.fixture
def topic(steered: SteeredLog) -> Topic:
    return steered.inner.topic("orders")


def test_an_empty_topic_is_caught_up_with_at_once(steered: SteeredLog, topic: Topic) -> None:
    with subscribe(steered.as_log(), "orders", markers=True) as subscription:
        items = drain(subscription)

    assert items == [CaughtUp(Partition(n), Offset(0), topic) for n in (0, 1)]


def test_caught_up_follows_the_last_record_of_the_history(
    steered: SteeredLog, topic: Topic
) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 300)

    with subscribe(log, "orders", partitions=[0], markers=True) as subscription:
        items = drain(subscription)

    assert places(items[:-1]) == [(0, n) for n in range(300)]
    assert items[-1] == CaughtUp(P0, Offset(300), topic)


def test_caught_up_is_not_said_while_there_is_more(steered: SteeredLog, topic: Topic) -> None:
    """What was appended during the history belongs before the marker, hint or no hint."""
    log = steered.as_log()
    steered.steer = lambda hints: ()
    fill(log, "orders", 0, 3)

    with subscribe(log, "orders", partitions=[0], markers=True) as subscription:
        items = take(subscription, 3)
        fill(log, "orders", 0, 2)
        items += drain(subscription)

    assert places(items[:-1]) == [(0, n) for n in range(5)]
    assert items[-1] == CaughtUp(P0, Offset(5), topic)


def test_caught_up_comes_once_while_the_reader_keeps_up(steered: SteeredLog, topic: Topic) -> None:
    log = steered.as_log()

    with subscribe(log, "orders", partitions=[0], markers=True) as subscription:
        items = drain(subscription)
        for _ in range(5):
            fill(log, "orders", 0, 1)
            items += drain(subscription)

    assert items[0] == CaughtUp(P0, Offset(0), topic)
    assert places(items[1:]) == [(0, n) for n in range(5)]


def test_a_reader_that_fell_behind_gets_a_marker_and_loses_nothing(
    steered: SteeredLog, topic: Topic
) -> None:
    """TE4, WE5: depth 2 and ten appends before reading; the signal cannot be lost."""
    log = steered.as_log()
    subscription = subscribe(
        log, "orders", partitions=[0], start=LATEST, read_ahead=2, markers=True
    )
    fill(log, "orders", 0, 10)

    items = drain(subscription)

    assert items[:2] == [CaughtUp(P0, Offset(0), topic), FellBehind(P0, None, topic)]
    assert places(items[2:-1]) == [(0, n) for n in range(10)]
    assert items[-1] == CaughtUp(P0, Offset(10), topic)


def test_fell_behind_names_the_last_record_delivered(steered: SteeredLog, topic: Topic) -> None:
    """TE4, WE5."""
    log = steered.as_log()
    fill(log, "orders", 0, 3)
    subscription = subscribe(log, "orders", partitions=[0], read_ahead=2, markers=True)
    drain(subscription)

    fill(log, "orders", 0, 2)
    within = drain(subscription)
    fill(log, "orders", 0, 3)
    beyond = drain(subscription)

    assert places(within) == [(0, 3), (0, 4)]
    assert beyond[0] == FellBehind(P0, Offset(4), topic)
    assert places(beyond[1:-1]) == [(0, 5), (0, 6), (0, 7)]
    assert beyond[-1] == CaughtUp(P0, Offset(8), topic)


def test_fell_behind_stands_before_the_records_it_counts(steered: SteeredLog, topic: Topic) -> None:
    """A hint that comes while a page is in hand is reported before that page."""
    log = steered.as_log()
    subscription = subscribe(log, "orders", read_ahead=2, markers=True)
    drain(subscription)
    fill(log, "orders", 0, 2)
    steered.before_read = lambda partition: fill(steered.inner, "orders", 0, 3)

    items = take(subscription, 2)

    assert items[0] == FellBehind(P0, None, topic)
    assert places(items[1:]) == [(0, 0)]


def test_a_partition_added_again_begins_its_markers_again(
    steered: SteeredLog, topic: Topic
) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 1)
    subscription = subscribe(log, "orders", partitions=[0], markers=True)
    drain(subscription)

    subscription.assignment.remove(0)
    subscription.assignment.add(0, LATEST)

    assert drain(subscription) == [CaughtUp(P0, Offset(1), topic)]


def test_markers_come_only_on_request(steered: SteeredLog) -> None:
    log = steered.as_log()
    subscription = subscribe(log, "orders", read_ahead=1)
    fill(log, "orders", 0, 5)

    assert all(isinstance(item, Record) for item in drain(subscription))


def test_markers_come_on_a_loop_too(steered: SteeredLog, topic: Topic) -> None:
    async def first() -> object:
        async with asyncio.timeout(PATIENCE_S):
            with subscribe(steered.as_log(), "orders", partitions=[0], markers=True) as sub:
                return await anext(AsyncSubscription(sub))

    assert asyncio.run(first()) == CaughtUp(P0, Offset(0), topic)
