"""Nacks with a delay that a group stores: as many may wait as events with a time of delivery."""

from collections.abc import Callable

import pytest

import strandline as sl
from strandline.subscriptions import outstanding
from strandline.testing import FakeClock

TOTAL = 12
ROOM = 4
DELAY_S = 60

Take = Callable[[sl.Consumer], list[int]]


def one_by_one(billing: sl.Consumer) -> list[int]:
    seen: list[int] = []
    while (delivery := billing.next(timeout_s=0)) is not None:
        billing.nack(delivery, delay_s=DELAY_S)
        seen.append(delivery.record.offset)
    return seen


def together(billing: sl.Consumer) -> list[int]:
    seen: list[int] = []
    while deliveries := billing.fetch(max_records=ROOM, timeout_s=0):
        for delivery in deliveries:
            billing.nack(delivery, delay_s=DELAY_S)
        seen += [delivery.record.offset for delivery in deliveries]
    return seen


def opened(clock: FakeClock) -> sl.Log:
    log = sl.open("memory:", clock=clock)
    log.create_topic("jobs")
    log.append_many("jobs", [sl.Event("job", number) for number in range(TOTAL)])
    return log


@pytest.mark.parametrize("take", [one_by_one, together])
def test_what_was_nacked_with_a_delay_leaves_room_for_the_next(
    take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outstanding, "OUTSTANDING_MAX", ROOM)
    clock = FakeClock()
    with opened(clock) as log, log.consumer("jobs", "billing", clock=clock) as billing:
        assert take(billing) == list(range(TOTAL))

        clock.advance(DELAY_S)
        again: list[int] = []
        while (delivery := billing.next(timeout_s=0)) is not None:
            billing.ack(delivery)
            again.append(delivery.record.offset)

        assert again == list(range(TOTAL))
        assert log.cursor("jobs", "billing", 0) == TOTAL


@pytest.mark.parametrize("take", [one_by_one, together])
def test_a_partition_is_read_no_further_while_so_many_wait(
    take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outstanding, "WAITING_MAX", ROOM)
    clock = FakeClock()
    with (
        opened(clock) as log,
        log.consumer("jobs", "billing", clock=clock, read_ahead=1) as billing,
    ):
        first = take(billing)
        assert ROOM <= len(first) < TOTAL

        clock.advance(DELAY_S)
        for _ in first:
            delivery = billing.next(timeout_s=0)
            assert delivery is not None
            billing.ack(delivery)

        assert take(billing)[0] == len(first)


def test_what_came_again_takes_room_until_it_is_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outstanding, "OUTSTANDING_MAX", ROOM)
    clock = FakeClock()
    with opened(clock) as log, log.consumer("jobs", "billing", clock=clock) as billing:
        assert len(one_by_one(billing)) == TOTAL
        log.append_many("jobs", [sl.Event("job", number) for number in range(TOTAL)])
        clock.advance(DELAY_S)

        taken = [billing.next(timeout_s=0) for _ in range(TOTAL)]

        assert all(each is not None and each.count == 2 for each in taken)
        with pytest.raises(sl.UnavailableError, match="too many records are outstanding"):
            billing.next(timeout_s=0)
