"""Deliveries are counted in the log: a new life of a consumer knows of the earlier ones."""

import weakref
from collections.abc import Iterator
from unittest import mock

import pytest

from strandline.log import Log
from strandline.subscriptions import OUTSTANDING_MAX, Consumer, Delivery
from strandline.subscriptions.counting import AHEAD_MAX
from strandline.subscriptions.delivery_counts import NOTES_KEPT
from strandline.subscriptions.outstanding import Attempts
from strandline.testing import FakeClock
from strandline.values import Event, UnavailableError
from tests.logs import memory_log
from tests.patience import wait_collected
from tests.subscriptions.doubles import fill


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[Log]:
    with memory_log(clock=clock) as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


def test_a_record_that_was_not_acked_is_counted_on_in_the_next_process(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 1, 3)
    with billing(log, clock) as first:
        first.ack(take(first).record)
        assert take(first).count == 1

    later = []
    for _ in range(3):
        with billing(log, clock) as again:
            later.append(take(again))

    assert [(each.record.offset, each.count) for each in later] == [(1, 2), (1, 3), (1, 4)]


def test_a_record_delivered_too_often_is_dead_lettered_by_the_next_process(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, 2)
    for _ in range(3):
        with billing(log, clock, deliveries_max=3) as dying:
            assert take(dying).record.offset == 0

    survivor = billing(log, clock, deliveries_max=3)
    delivery = take(survivor)

    assert (delivery.record.offset, delivery.count) == (1, 1)
    assert log.cursor("orders", "billing", 0) == 1
    (letter,) = log.read(survivor.dead_letter_topic, 0, 0)
    assert letter.payload == 0
    assert isinstance(letter.value, Event)
    assert letter.value.headers["strandline.deliveries"] == "3"
    assert "never acked" in letter.value.headers["strandline.reason"]


def test_redeliveries_of_earlier_processes_count_behind_the_first_record_too(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, 3)
    with billing(log, clock) as first:
        deliveries = [take(first) for _ in range(3)]
        first.nack(deliveries[2].record)
        assert take(first) == Delivery(deliveries[2].record, 2)

    with billing(log, clock) as second:
        assert [take(second).count for _ in range(3)] == [2, 2, 3]


def test_a_process_that_ends_earlier_loses_no_count(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    with billing(log, clock) as first:
        take(first)
        first.nack(take(first).record)
        take(first)
    with billing(log, clock) as second:
        take(second)

    with billing(log, clock) as third:
        assert [take(third).count for _ in range(2)] == [3, 3]


def test_consumers_partitions_and_tenants_are_counted_apart(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    fill(log, "orders", 1, 1)
    take(billing(log, clock, partitions=[0]))

    others = [
        billing(log, clock, partitions=[1]),
        Consumer(log, "orders", "shipping", partitions=[0], clock=clock),
        billing(log, clock, partitions=[0], tenant="acme"),
    ]

    assert [take(other).count for other in others] == [1, 1, 1]


@pytest.mark.parametrize("by", ["the consumer", "the log"])
def test_deliveries_are_counted_again_after_a_seek_back(
    log: Log, clock: FakeClock, by: str
) -> None:
    fill(log, "orders", 0, 3)
    first = billing(log, clock)
    for _ in range(3):
        first.ack(take(first).record)

    if by == "the consumer":
        first.seek(0, 0)
        again = first
    else:
        first.close()
        log.seek("orders", "billing", 0, 0)
        again = billing(log, clock)

    assert [take(again).count for _ in range(3)] == [1, 1, 1]


def test_a_dead_letter_can_be_had_again(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    with billing(log, clock, deliveries_max=1) as first:
        assert first.nack(take(first).record)

    log.seek("orders", "billing", 0, 0)

    with billing(log, clock, deliveries_max=1) as second:
        assert take(second).count == 1


def test_a_topic_made_again_is_counted_again(log: Log, clock: FakeClock) -> None:
    log.create_topic("short")
    log.append("short", Event("a", 1))
    take(Consumer(log, "short", "billing", clock=clock))

    log.drop_topic("short")
    log.create_topic("short")
    log.append("short", Event("a", 2))

    assert take(Consumer(log, "short", "billing", clock=clock)).count == 1


@pytest.mark.slow
def test_what_is_kept_is_bounded(log: Log, clock: FakeClock) -> None:
    count = 3 * NOTES_KEPT
    fill(log, "orders", 0, count)
    reader = billing(log, clock)
    for _ in range(count):
        reader.ack(take(reader).record)

    (notes,) = log.topics(internal=True)
    marks = log.marks(notes, 0)

    assert 0 < marks.high - marks.low <= NOTES_KEPT
    (last,) = log.read(notes, 0, marks.high - 1)
    assert last.payload["counts"] == [[count - 1, 1]]


@pytest.mark.slow
def test_many_deliveries_are_counted_in_one_note(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, OUTSTANDING_MAX)
    reader = billing(log, clock)
    for _ in range(OUTSTANDING_MAX):
        take(reader)

    (notes,) = log.topics(internal=True)

    assert log.marks(notes, 0).high <= 2 * OUTSTANDING_MAX // AHEAD_MAX


def test_an_orderly_end_counts_only_what_was_delivered(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 100)
    with billing(log, clock) as first:
        deliveries = [take(first) for _ in range(40)]
        for delivery in deliveries:
            first.ack(delivery.record)

    with billing(log, clock) as second:
        assert [take(second).count for _ in range(60)] == [1] * 60


def test_what_is_appended_after_a_crash_is_not_counted_yet(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    crashed = billing(log, clock)
    for _ in range(3):
        take(crashed)
    del crashed
    fill(log, "orders", 0, 2)

    second = billing(log, clock)

    assert [take(second).count for _ in range(5)] == [2, 2, 2, 1, 1]


def test_crashes_with_many_in_flight_dead_letter_nothing_and_the_last_delivery_is_alone(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, 2)
    fill(log, "orders", 1, 2)
    for _ in range(3):
        crashed = billing(log, clock, deliveries_max=3)
        assert len([take(crashed) for _ in range(4)]) == 4
        del crashed

    survivor = billing(log, clock, deliveries_max=3)
    for left in (3, 2, 1, 0):
        delivery = take(survivor)
        if left:
            with pytest.raises(UnavailableError, match="delivered alone"):
                survivor.next(0.0)
        assert delivery.count == 4
        survivor.ack(delivery.record)

    assert survivor.next(0.0) is None
    assert survivor.dead_letter_topic not in [topic.name for topic in log.topics(internal=True)]


def test_what_is_alone_when_a_process_ends_again_is_dead_lettered_and_no_other(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, 3)
    for _ in range(3):
        crashed = billing(log, clock, deliveries_max=3)
        for _ in range(3):
            take(crashed)
        del crashed
    accused = take(billing(log, clock, deliveries_max=3)).record

    survivor = billing(log, clock, deliveries_max=3)
    others = []
    while (delivery := survivor.next(0.0)) is not None:
        others.append(delivery.record.offset)
        survivor.ack(delivery.record)

    assert (accused.offset, others) == (0, [1, 2])
    (letter,) = log.read(survivor.dead_letter_topic, 0, 0)
    assert letter.payload == 0
    assert letter.headers["strandline.deliveries"] == "4"


def test_who_shared_a_crash_has_all_its_nacks_left(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    for _ in range(2):
        crashed = billing(log, clock, deliveries_max=3)
        take(crashed)
        take(crashed)
        del crashed

    survivor = billing(log, clock, deliveries_max=3)
    survivor.ack(take(survivor).record)
    outcomes = [survivor.nack(take(survivor).record) for _ in range(3)]

    assert outcomes == [False, False, True]


def test_a_record_that_was_alone_and_acked_is_not_accused_by_a_later_crash(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, 2)
    crashed = billing(log, clock)
    crashed.nack(take(crashed).record, delay_s=60)
    crashed.ack(take(crashed).record)
    del crashed

    later = billing(log, clock)
    assert later.next(0.0) is None
    later.seek(0, 0)

    assert [take(later).count for _ in range(2)] == [1, 1]


def test_a_nacked_record_keeps_its_count_over_a_crash(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    crashed = billing(log, clock)
    crashed.nack(take(crashed).record, delay_s=60)
    del crashed

    later = billing(log, clock)
    clock.advance(60)

    again = take(later)
    assert again.count == 2
    assert later.attempts(again) == Attempts(failed=1)


def test_counts_of_an_earlier_version_are_read(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    take(billing(log, clock))
    (notes,) = log.topics(internal=True)
    log.trim(notes, 0, log.marks(notes, 0).high)
    old = {"consumer": "billing", "floor": 0, "counts": [[0, 4], [1, 2]]}
    log.append(notes, Event("deliveries", old), partition=0)

    second = billing(log, clock)

    assert [take(second).count for _ in range(2)] == [5, 3]


def test_a_seek_drops_counts_of_an_earlier_version(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    take(billing(log, clock))
    (notes,) = log.topics(internal=True)
    old = {"consumer": "billing", "floor": 0, "counts": [[0, 4], [1, 2]]}
    log.append(notes, Event("deliveries", old), partition=0)

    second = billing(log, clock)
    second.seek(0, 1)

    assert take(second).count == 1


@pytest.mark.slow
def test_a_crash_between_an_ack_and_its_cursor_loses_no_count(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    crashed = billing(log, clock)
    first, second = take(crashed), take(crashed)
    crashed.nack(second.record)
    with mock.patch.object(log, "ack", side_effect=UnavailableError("busy")):
        with pytest.raises(UnavailableError):
            crashed.ack(first.record)
        assert take(crashed).count == 2
    gone = weakref.ref(crashed)
    del crashed
    wait_collected(lambda: gone() is None)

    later = billing(log, clock)

    assert [take(later).count for _ in range(2)] == [2, 3]


def test_a_record_acked_on_its_way_to_come_again_does_not_come(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    reader = billing(log, clock)
    first, second = take(reader), take(reader)
    reader.nack(second.record)

    reader.ack(second.record)
    reader.ack(first.record)

    assert reader.next(0.0) is None
    assert log.cursor("orders", "billing", 0) == 2


def billing(
    log: Log,
    clock: FakeClock,
    *,
    deliveries_max: int | None = 9,
    partitions: list[int] | None = None,
    tenant: str | None = None,
) -> Consumer:
    return Consumer(
        log,
        "orders",
        "billing",
        deliveries_max=deliveries_max,
        partitions=partitions,
        tenant=tenant,
        clock=clock,
    )


def take(consumer: Consumer) -> Delivery:
    delivery = consumer.next(0.0)
    assert delivery is not None
    return delivery
