"""What a subscription delivers: exactly start, start + 1, …, per partition."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strandline.subscriptions import READ_AHEAD, subscribe
from strandline.testing import FakeClock
from strandline.values import (
    EARLIEST,
    LATEST,
    ClosedError,
    InvalidError,
    TrimmedError,
)
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
    log.create_topic("orders", partitions=3)
    yield log
    log.inner.close()


def test_history_comes_first_and_new_records_follow(steered: SteeredLog) -> None:
    """TA2."""
    log = steered.as_log()
    fill(log, "orders", 0, 2)

    with subscribe(log, "orders", start=0, partitions=[0]) as subscription:
        before = take(subscription, 2)
        fill(log, "orders", 0, 1)
        (after,) = take(subscription, 1)

    assert places(before) == [(0, 0), (0, 1)]
    assert (after.partition, after.offset, after.topic) == (0, 2, "orders")


def test_two_subscribers_see_the_same(steered: SteeredLog) -> None:
    """TA5."""
    log = steered.as_log()
    fill(log, "orders", 0, 1)
    first, second = subscribe(log, "orders"), subscribe(log, "orders")

    fill(log, "orders", 0, 1)

    assert take(first, 2) == take(second, 2)
    first.close()
    second.close()


def test_only_assigned_partitions_come_and_from_their_starts(steered: SteeredLog) -> None:
    """TA6."""
    log = steered.as_log()
    for partition, count in enumerate((3, 2, 1)):
        fill(log, "orders", partition, count)

    with subscribe(log, "orders", start={0: 1, 1: 0}) as subscription:
        found = places(take(subscription, 4))
        delay = drain(subscription)

    assert set(found[:3]) == {(0, 1), (0, 2), (1, 0)}
    assert found[3] == (1, 1)
    assert delay == []


def test_live_records_come_only_of_assigned_partitions(steered: SteeredLog) -> None:
    """TA7."""
    log = steered.as_log()

    with subscribe(log, "orders", partitions=[0]) as subscription:
        fill(log, "orders", 1, 1)
        fill(log, "orders", 0, 1)

        assert places(take(subscription, 1)) == [(0, 0)]
        assert drain(subscription) == []


@pytest.mark.parametrize("partition", ["0", True, 1.0])
def test_a_start_for_what_is_no_number_says_that_partitions_are(
    steered: SteeredLog, partition: Any
) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 5)

    with pytest.raises(InvalidError, match="a partition is a whole number"):
        subscribe(log, "orders", start={partition: 1})


def test_a_start_beyond_the_end_is_refused(steered: SteeredLog) -> None:
    """TA11, WA2: nothing below the start is ever delivered, since there is no such start."""
    log = steered.as_log()
    fill(log, "orders", 0, 5)

    with pytest.raises(InvalidError) as caught:
        subscribe(log, "orders", start={0: 6})

    assert caught.value.fields["end"] == 5
    assert steered.watches_open == 0


def test_a_start_at_the_end_delivers_nothing_below_it(steered: SteeredLog) -> None:
    """TA11, WA2."""
    log = steered.as_log()
    fill(log, "orders", 0, 5)

    with subscribe(log, "orders", start={0: 5}) as subscription:
        assert drain(subscription) == []
        fill(log, "orders", 0, 1)

        assert places(drain(subscription)) == [(0, 5)]


@pytest.mark.parametrize("start", [-1, True, 1.0, "newest", None, datetime(2026, 1, 1)])
def test_a_start_that_is_none_is_refused(steered: SteeredLog, start: Any) -> None:
    with pytest.raises(InvalidError):
        subscribe(steered.as_log(), "orders", partitions=[0], start=start)


def test_one_offset_for_several_partitions_is_refused(steered: SteeredLog) -> None:
    with pytest.raises(InvalidError, match="pass one for each"):
        subscribe(steered.as_log(), "orders", start=0)


def test_a_start_that_was_trimmed_is_refused(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 5)
    log.trim("orders", 0, 3)

    with pytest.raises(TrimmedError) as caught:
        subscribe(log, "orders", start={0: 2})

    assert caught.value.oldest == 3


def test_earliest_is_the_oldest_kept_and_latest_only_what_comes(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 5)
    log.trim("orders", 0, 3)
    earliest = subscribe(log, "orders", start=EARLIEST)
    latest = subscribe(log, "orders", start=LATEST)

    fill(log, "orders", 0, 1)

    assert places(drain(earliest)) == [(0, 3), (0, 4), (0, 5)]
    assert places(drain(latest)) == [(0, 5)]


def test_a_time_is_a_start() -> None:
    clock = FakeClock()
    log = SteeredLog(clock=clock).as_log()
    log.create_topic("orders")
    fill(log, "orders", 0, 2)
    clock.advance(60.0)
    fill(log, "orders", 0, 1)
    (newest,) = log.read("orders", 0, 2, records_max=1, bytes_max=None)

    at = subscribe(log, "orders", start=newest.timestamp, clock=clock)
    after = subscribe(log, "orders", start=newest.timestamp + timedelta(hours=1), clock=clock)
    before = subscribe(log, "orders", start=datetime(1, 1, 1, tzinfo=UTC), clock=clock)

    assert places(drain(at)) == [(0, 2)]
    assert drain(after) == []
    assert places(drain(before)) == [(0, 0), (0, 1), (0, 2)]


def test_a_consumer_starts_at_its_cursor_and_elsewhere_at_the_start(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 4)
    fill(log, "orders", 1, 2)
    log.ack("orders", "billing", 0, 3)

    with subscribe(log, "orders", consumer="billing") as subscription:
        found = places(drain(subscription))

    assert sorted(found) == [(0, 3), (1, 0), (1, 1)]


def test_several_topics_are_read_as_one(steered: SteeredLog) -> None:
    log = steered.as_log()
    log.create_topic("refunds")
    fill(log, "orders", 2, 2)
    fill(log, "refunds", 0, 2)

    with subscribe(log, ["orders", "refunds", "orders"]) as subscription:
        found = [(record.topic, record.offset) for record in drain(subscription)]
        assigned = subscription.assignment.assigned(topic="refunds")

    assert sorted(found) == [("orders", 0), ("orders", 1), ("refunds", 0), ("refunds", 1)]
    assert assigned == [0]


def test_several_topics_need_their_names(steered: SteeredLog) -> None:
    log = steered.as_log()
    log.create_topic("refunds")

    with pytest.raises(InvalidError):
        subscribe(log, ["orders", "refunds"], partitions=[0])
    with pytest.raises(InvalidError):
        subscribe(log, [])
    with subscribe(log, ["orders", "refunds"], partitions=()) as subscription:
        with pytest.raises(InvalidError):
            subscription.assignment.add(0)
        subscription.assignment.add(0, topic="refunds")
        assert subscription.assignment.assigned(topic="orders") == []


def test_a_burst_larger_than_any_buffer_loses_nothing(steered: SteeredLog) -> None:
    """TA13, WA1."""
    log = steered.as_log()

    with subscribe(log, "orders", partitions=[0], start=LATEST) as subscription:
        fill(log, "orders", 0, 5000)

        assert places(drain(subscription)) == [(0, n) for n in range(5000)]


def test_a_long_history_is_read_a_page_at_a_time_and_on_demand(steered: SteeredLog) -> None:
    """WE12, WA4."""
    log = steered.as_log()
    fill(log, "orders", 0, 1000)

    with subscribe(log, "orders", partitions=[0], read_ahead=10) as subscription:
        read_at_first = steered.records_read
        take(subscription, 11)

    assert read_at_first == 0
    assert steered.records_read == 20
    assert steered.records_asked_max == 10


@pytest.mark.parametrize("read_ahead", [0, -1, True, 1.5])
def test_read_ahead_is_at_least_one(steered: SteeredLog, read_ahead: Any) -> None:
    with pytest.raises(InvalidError):
        subscribe(steered.as_log(), "orders", read_ahead=read_ahead)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_end_of_a_page_repeats_and_skips_nothing(steered: SteeredLog, more: int) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, READ_AHEAD + more)

    with subscribe(log, "orders", partitions=[0]) as subscription:
        found = places(drain(subscription))
        fill(log, "orders", 0, 1)
        found += places(drain(subscription))

    assert found == [(0, n) for n in range(READ_AHEAD + more + 1)]


def test_a_trim_that_overtakes_a_reader_is_an_error_with_a_way_on(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 10)
    fill(log, "orders", 1, 1)
    subscription = subscribe(log, "orders", partitions=[0, 1], read_ahead=2)
    found = places(take(subscription, 2))
    log.trim("orders", 0, 8)

    found += places(take(subscription, 1))
    with pytest.raises(TrimmedError) as caught:
        subscription.next(0.0)
    assert subscription.assignment.remove(0) == 2
    subscription.assignment.add(0, caught.value.oldest)

    assert found == [(0, 0), (0, 1), (1, 0)]
    assert places(drain(subscription)) == [(0, 8), (0, 9)]


def test_a_dropped_topic_is_an_error_at_once_and_can_be_removed() -> None:
    clock = FakeClock()
    log = SteeredLog(clock=clock).as_log()
    log.create_topic("orders")
    log.create_topic("refunds")
    fill(log, "orders", 0, 1)
    subscription = subscribe(log, ["orders", "refunds"], clock=clock)
    take(subscription, 1)
    waiting = on_thread(lambda: next(subscription))
    clock.wait_for_waiters(1)

    log.drop_topic("refunds")

    with pytest.raises(InvalidError):
        waiting.result(PATIENCE_S)
    subscription.assignment.remove(0, topic="refunds")
    fill(log, "orders", 0, 1)
    assert places(drain(subscription)) == [(0, 1)]


def test_a_partition_that_is_unavailable_is_tried_again_and_holds_no_other_up() -> None:
    """WA9: no partition dies of a passing error, and its health can be seen."""
    clock = FakeClock()
    steered = SteeredLog(clock=clock)
    log = steered.as_log()
    log.create_topic("orders", partitions=2)
    subscription = subscribe(log, "orders", clock=clock)
    fill(log, "orders", 0, 2)
    fill(log, "orders", 1, 2)
    steered.unavailable.add(0)

    while_away = places(drain(subscription))
    fault = subscription.assignment.fault(0)
    steered.unavailable.clear()
    afterwards = places(drain(subscription))

    assert while_away == [(1, 0), (1, 1)]
    assert fault is not None
    assert afterwards == [(0, 0), (0, 1)]
    assert subscription.assignment.fault(0) is None


def test_looks_that_take_longer_than_the_interval_of_polls_end_with_the_timeout() -> None:
    clock = FakeClock()
    steered = SteeredLog(clock=clock)
    steered.as_log().create_topic("orders", partitions=8)
    subscription = subscribe(steered.as_log(), "orders", clock=clock)
    looks: list[int] = []

    def look_slowly(partition: int) -> None:
        looks.append(partition)
        assert len(looks) < 100, "it looks again and again"
        clock.advance(0.4)

    steered.after_marks = look_slowly
    clock.advance(2.0)

    assert subscription.next(timeout_s=0) is None
    assert sorted(set(looks)) == list(range(8))
    fill(steered.as_log(), "orders", 7, 1)
    assert places([subscription.next(timeout_s=0)]) == [(7, 0)]


def test_a_partition_that_never_runs_dry_does_not_keep_others_from_being_heard(
    steered: SteeredLog,
) -> None:
    """S5."""
    log = steered.as_log()
    subscription = subscribe(log, "orders", partitions=[0, 1], read_ahead=4)
    drain(subscription)
    fill(log, "orders", 0, 100)
    take(subscription, 1)

    fill(log, "orders", 1, 1)
    found = places(take(subscription, 20))

    assert (1, 0) in found


def test_next_after_a_close_is_an_error_and_a_loop_ends(steered: SteeredLog) -> None:
    log = steered.as_log()
    fill(log, "orders", 0, 10)
    subscription = subscribe(log, "orders")
    take(subscription, 1)

    subscription.close()
    subscription.close()

    assert list(subscription) == []
    with pytest.raises(ClosedError):
        subscription.next(0.0)
    with pytest.raises(ClosedError):
        subscription.assignment.add(1)
