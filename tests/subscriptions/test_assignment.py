"""Partitions that come and go while a subscription is read."""

from collections.abc import Iterator
from typing import Any

import pytest

from strandline.subscriptions import subscribe
from strandline.testing import FakeClock
from strandline.values import EARLIEST, InvalidError
from tests.patience import wait_collected
from tests.subscriptions.doubles import (
    PATIENCE_S,
    SteeredLog,
    drain,
    fill,
    places,
    take,
)
from tests.threads import on_thread


@pytest.fixture
def steered() -> Iterator[SteeredLog]:
    log = SteeredLog()
    log.create_topic("orders", partitions=2)
    yield log
    log.inner.close()


def test_an_added_partition_brings_its_backlog_then_what_comes(steered: SteeredLog) -> None:
    """TA8."""
    log = steered.as_log()
    fill(log, "orders", 1, 3)
    subscription = subscribe(log, "orders", partitions=[0])

    subscription.assignment.add(1, 0)
    fill(log, "orders", 1, 1)

    assert places(take(subscription, 4)) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert 1 in subscription.assignment.assigned()


def test_an_add_wakes_a_reader_that_waits() -> None:
    clock = FakeClock()
    log = SteeredLog(clock=clock).as_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 1, 1)
    subscription = subscribe(log, "orders", partitions=(), clock=clock)
    reader = on_thread(lambda: next(subscription))
    clock.wait_for_waiters(1)

    subscription.assignment.add(1)

    assert places([reader.result(PATIENCE_S)]) == [(1, 0)]


def test_a_closed_subscription_leaves_nothing_in_the_log(steered: SteeredLog) -> None:
    """TA9."""
    subscription = subscribe(steered.as_log(), "orders")
    assert steered.watches_open == 1

    subscription.close()

    assert steered.watches_open == 0


def test_a_dropped_subscription_leaves_nothing_in_the_log(steered: SteeredLog) -> None:
    """TA9, WE13."""
    for _ in subscribe(steered.as_log(), "orders", partitions=()).assignment.assigned():
        pytest.fail("nothing is assigned")
    wait_collected(steered.closed.is_set)

    assert steered.watches_open == 0


def test_a_removed_partition_delivers_nothing_more(steered: SteeredLog) -> None:
    """TA10."""
    log = steered.as_log()
    subscription = subscribe(log, "orders")

    subscription.assignment.remove(1)
    fill(log, "orders", 1, 1)
    fill(log, "orders", 0, 1)

    assert subscription.assignment.assigned() == [0]
    assert places(drain(subscription)) == [(0, 0)]
    assert steered.watches[0].places == {("orders", 0)}


def test_a_remove_withdraws_what_was_read_already(steered: SteeredLog) -> None:
    """WA3: a page that was read is dropped with its generation."""
    log = steered.as_log()
    fill(log, "orders", 0, 5)
    subscription = subscribe(log, "orders", partitions=[0])
    take(subscription, 2)

    following = subscription.assignment.remove(0)

    assert following == 2
    assert drain(subscription) == []


@pytest.mark.parametrize("start", [0, 1, 2, 3, 5])
def test_a_partition_added_again_starts_at_the_given_offset(
    steered: SteeredLog, start: int
) -> None:
    """TA12, WA3."""
    log = steered.as_log()
    fill(log, "orders", 0, 5)
    subscription = subscribe(log, "orders", partitions=[0])
    take(subscription, 2)

    subscription.assignment.remove(0)
    subscription.assignment.add(0, start)

    assert places(drain(subscription)) == [(0, n) for n in range(start, 5)]


def test_remove_and_add_continue_without_gap_or_repeat(steered: SteeredLog) -> None:
    """TA12."""
    log = steered.as_log()
    fill(log, "orders", 0, 50)
    subscription = subscribe(log, "orders", partitions=[0], read_ahead=7)
    found = []

    while record := subscription.next(0.0):
        found.append(record)
        following = subscription.assignment.remove(0)
        assert following is not None
        subscription.assignment.add(0, following)

    assert places(found) == [(0, n) for n in range(50)]


def test_the_same_partition_twice_is_read_once(steered: SteeredLog) -> None:
    """TA14, WA5."""
    log = steered.as_log()
    fill(log, "orders", 0, 3)

    subscription = subscribe(log, "orders", partitions=[0, (0, EARLIEST), 0])

    assert places(drain(subscription)) == [(0, 0), (0, 1), (0, 2)]


def test_the_same_partition_with_two_starts_is_refused(steered: SteeredLog) -> None:
    """TA14, WA5."""
    log = steered.as_log()
    fill(log, "orders", 0, 3)

    with pytest.raises(InvalidError, match="two starts"):
        subscribe(log, "orders", partitions=[(0, 1), (0, 2)])


@pytest.mark.parametrize("partition", [-1, 2, True, 0.0, "0", None])
def test_a_partition_that_there_is_not_is_refused(steered: SteeredLog, partition: Any) -> None:
    """WA6."""
    log = steered.as_log()

    with pytest.raises(InvalidError):
        subscribe(log, "orders", partitions=[0, partition])
    with subscribe(log, "orders", partitions=[0]) as subscription:
        with pytest.raises(InvalidError):
            subscription.assignment.add(partition)
        with pytest.raises(InvalidError):
            subscription.assignment.remove(partition)

    assert steered.watches_open == 0


def test_a_second_add_changes_nothing(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 3)
    subscription = subscribe(log, "orders", partitions=[(0, 1)])

    subscription.assignment.add(0, 0)
    subscription.assignment.add(0, 99)

    assert places(drain(subscription)) == [(0, 1), (0, 2)]


def test_a_refused_add_leaves_the_assignment_as_it_was(steered: SteeredLog) -> None:
    log = steered.as_log()
    subscription = subscribe(log, "orders", partitions=[0])

    with pytest.raises(InvalidError):
        subscription.assignment.add(1, 99)
    assert subscription.assignment.assigned() == [0]
    assert subscription.assignment.remove(1) is None
    with pytest.raises(InvalidError):
        subscription.assignment.position(1)


def test_a_remove_after_the_log_was_closed_is_no_error(steered: SteeredLog) -> None:
    subscription = subscribe(steered.as_log(), "orders")
    steered.inner.close()

    assert subscription.assignment.remove(0) == 0
    assert subscription.assignment.assigned() == [1]
