"""Consumers of one name share its partitions; each holds a lease, and a generation."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Unpack

import pytest

import strandline as sl
from strandline.clock import Clock, Timer
from strandline.groups import Assigned, AssignmentEvent, Revoked
from strandline.subscriptions.options import ConsumerOptions
from strandline.testing import FakeClock
from tests.subscriptions.doubles import fill

LEASE_S = 10.0
TICKS_S = 3.0
"""Enough for one member to give back, and another to take."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[sl.Log]:
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url, clock=clock) as opened:
        opened.create_topic("orders", partitions=4)
        yield opened


@pytest.fixture
def one_log(clock: FakeClock) -> Iterator[sl.Log]:
    with sl.open("memory:", clock=clock) as opened:
        opened.create_topic("orders", partitions=4)
        for partition in range(4):
            fill(opened, "orders", partition, 3)
        yield opened


def member(log: sl.Log, by: Clock, **options: Unpack[ConsumerOptions]) -> sl.Consumer:
    options.setdefault("clock", by)
    options.setdefault("lease_s", LEASE_S)
    return log.consumer("orders", "billing", **options)


class ProcessClock:
    """The clock of a process that can be stopped: no timer of it fires then."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.is_stopped = False
        self.now_us, self.monotonic = clock.now_us, clock.monotonic
        self.wait, self.new_id, self.random_bytes = clock.wait, clock.new_id, clock.random_bytes

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay_s, lambda: None if self.is_stopped else action())


def test_two_members_share_the_partitions_and_moves_are_as_few_as_can_be(
    log: sl.Log, clock: FakeClock
) -> None:
    first = member(log, clock)
    assert first.assigned() == [0, 1, 2, 3]

    second = member(log, clock)
    clock.advance(TICKS_S)

    assert (first.assigned(), second.assigned()) == ([0, 1], [2, 3])
    assert log.metrics().partitions_revoked == 2
    third = member(log, clock)
    clock.advance(TICKS_S)
    assert sorted(map(len, (first.assigned(), second.assigned(), third.assigned()))) == [1, 1, 2]
    assert set(first.assigned()) <= {0, 1}
    assert set(second.assigned()) <= {2, 3}
    for each in (first, second, third):
        each.close()


def test_a_member_that_stops_gives_back_at_once(log: sl.Log, clock: FakeClock) -> None:
    first, second = member(log, clock), member(log, clock)
    clock.advance(TICKS_S)

    first.close()
    clock.advance(1.0)

    assert second.assigned() == [0, 1, 2, 3]
    reasons = {each.reason for each in log.consumers("orders")}
    assert any("left" in each for each in reasons)
    second.close()


def test_one_that_is_gone_is_succeeded_at_once_where_that_can_be_proved(
    log: sl.Log, clock: FakeClock
) -> None:
    gone = member(log, clock)
    assert gone.assigned() == [0, 1, 2, 3]
    del gone

    second = member(log, clock)

    assert second.assigned() == [0, 1, 2, 3]
    second.close()


def test_a_silent_member_is_succeeded_after_the_time_of_its_lease(
    log: sl.Log, clock: FakeClock
) -> None:
    process = ProcessClock(clock)
    silent, second = member(log, process), member(log, clock)
    clock.advance(TICKS_S)
    process.is_stopped = True

    clock.advance(LEASE_S - 2.0)
    assert second.assigned() == [2, 3]
    clock.advance(4.0)

    assert second.assigned() == [0, 1, 2, 3]
    moved = [each for each in log.consumers("orders") if each.partition == 0]
    assert "expired" in moved[0].reason
    assert moved[0].is_live
    second.close()
    silent.close()


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_jumps_moves_no_partition(
    log: sl.Log, clock: FakeClock, jump_s: float
) -> None:
    first, second = member(log, clock), member(log, clock)
    clock.advance(TICKS_S)
    before = [each.generation for each in log.consumers("orders")]

    clock.set_now_us(clock.now_us() + round(jump_s * 1_000_000))
    clock.advance(TICKS_S)

    assert (first.assigned(), second.assigned()) == ([0, 1], [2, 3])
    assert [each.generation for each in log.consumers("orders")] == before
    first.close()
    second.close()


def test_members_that_live_keep_what_they_hold(log: sl.Log, clock: FakeClock) -> None:
    told: list[AssignmentEvent] = []
    first, second = member(log, clock), member(log, clock)
    clock.advance(TICKS_S)
    third = member(log, clock, on_assignment=told.append)
    clock.advance(TICKS_S)
    held = [each.assigned() for each in (first, second, third)]
    count = len(told)

    clock.advance(5 * LEASE_S)

    assert [each.assigned() for each in (first, second, third)] == held
    assert len(told) == count
    for each in (first, second, third):
        each.close()


def test_what_a_member_that_lost_its_lease_stores_is_refused(log: sl.Log, clock: FakeClock) -> None:
    for partition in range(4):
        fill(log, "orders", partition, 3)
    process = ProcessClock(clock)
    silent = member(log, process)
    had = [silent.next(0.0) for _ in range(12)]
    process.is_stopped = True
    second = member(log, clock)
    clock.advance(LEASE_S + 2.0)
    assert second.assigned() == [0, 1, 2, 3]
    cursors = [each.cursor for each in log.consumers("orders")]

    for call in (silent.ack, silent.nack, silent.dead_letter, silent.begin_alone):
        for delivery in had[:3]:
            assert delivery is not None
            with pytest.raises(sl.LeaseLostError) as caught:
                call(delivery)
            assert caught.value.partition == delivery.record.partition
    with pytest.raises(sl.LeaseLostError):
        silent.ack([each for each in had if each is not None])
    with pytest.raises(sl.LeaseLostError):
        silent.seek(0, 3)

    assert [each.cursor for each in log.consumers("orders")] == cursors == [0, 0, 0, 0]
    assert not log.topics(internal=True) or all(
        not each.name.startswith("__dead") for each in log.topics(internal=True)
    )
    second.close()
    silent.close()


def test_a_member_that_woke_up_delivers_nothing_before_it_has_looked(
    log: sl.Log, clock: FakeClock
) -> None:
    for partition in range(4):
        fill(log, "orders", partition, 3)
    process = ProcessClock(clock)
    silent = member(log, process)
    assert silent.next(0.0) is not None
    process.is_stopped = True
    second = member(log, clock)
    clock.advance(LEASE_S + 2.0)
    seen = {(each.record.partition, each.record.offset) for each in iter_all(second)}

    woken = iter_all(silent)

    assert len(seen) == 12
    assert woken == []
    assert silent.assigned() == []
    clock.advance(TICKS_S)
    second.close()
    silent.close()


def iter_all(consumer: sl.Consumer) -> list[sl.Delivery]:
    found = []
    while (delivery := consumer.next(0.0)) is not None:
        found.append(delivery)
    return found


def test_a_delivery_of_an_earlier_generation_is_refused_by_the_one_that_holds_it_again(
    one_log: sl.Log, clock: FakeClock
) -> None:
    first = member(one_log, clock)
    had = {int(each.record.partition): each for each in iter_all(first) if each.record.offset == 0}
    second = member(one_log, clock)
    clock.advance(LEASE_S + TICKS_S)
    second.close()
    clock.advance(TICKS_S)
    assert first.assigned() == [0, 1, 2, 3]

    with pytest.raises(sl.LeaseLostError):
        first.ack(had[3])

    assert first.ack(had[0]) == 1
    assert one_log.cursor("orders", "billing", 3) == 0
    first.close()


def test_a_revoked_partition_is_held_until_what_was_delivered_is_settled(
    one_log: sl.Log, clock: FakeClock
) -> None:
    told: list[AssignmentEvent] = []
    first = member(one_log, clock, on_assignment=told.append)
    held = iter_all(first)
    second = member(one_log, clock)

    clock.advance(TICKS_S)
    assert second.assigned() == []
    revoked = [each for each in told if isinstance(each, Revoked)]
    assert [(each.partition, each.is_lost) for each in revoked] == [(2, False), (3, False)]
    first.ack([each for each in held if each.record.partition in {2, 3}])
    clock.advance(TICKS_S)

    assert (first.assigned(), second.assigned()) == ([0, 1], [2, 3])
    assert [one_log.cursor("orders", "billing", n) for n in range(4)] == [0, 0, 3, 3]
    assert [each.partition for each in told if isinstance(each, Assigned)] == [0, 1, 2, 3]
    first.close()
    second.close()


def test_who_has_what_since_when_and_why_is_listed(one_log: sl.Log, clock: FakeClock) -> None:
    first, second = member(one_log, clock), member(one_log, clock)
    clock.advance(TICKS_S)

    listed = one_log.consumers("orders")

    assert all(each.is_live and each.member is not None for each in listed)
    assert [each.generation for each in listed[:2]] == [1, 1]
    assert all(each.generation > 1 for each in listed[2:])
    assert all("share" in each.reason for each in listed[2:])
    assert all(each.held_since_us is not None for each in listed)
    first.close()
    second.close()
    assert not any(each.is_live for each in one_log.consumers("orders"))


def test_a_manual_consumer_and_a_group_leave_each_other_alone(
    one_log: sl.Log, clock: FakeClock
) -> None:
    by_hand = member(one_log, clock, partitions=[1, 3])
    grouped = member(one_log, clock)
    assert grouped.assigned() == [0, 2]

    with pytest.raises(sl.UnavailableError, match="pid="):
        member(one_log, clock, partitions=[0])
    with pytest.raises(sl.UnavailableError, match="pid="):
        member(one_log, clock, group=False)
    by_hand.assign([1])
    clock.advance(TICKS_S)

    assert grouped.assigned() == [0, 2, 3]
    by_hand.close()
    clock.advance(TICKS_S)
    assert grouped.assigned() == [0, 1, 2, 3]
    grouped.close()


def test_a_consumer_that_was_removed_starts_again_without_its_old_members(
    one_log: sl.Log, clock: FakeClock
) -> None:
    first = member(one_log, clock)
    (had, *_) = iter_all(first)
    one_log.delete_consumer("orders", "billing")

    with pytest.raises(sl.LeaseLostError):
        first.ack(had)
    clock.advance(TICKS_S)

    assert first.assigned() == [0, 1, 2, 3]
    assert [each.cursor for each in one_log.consumers("orders")] == [0, 0, 0, 0]
    first.close()


@pytest.mark.parametrize("lease_s", [0.0, 0.01, -1.0, float("nan"), "10"])
def test_a_lease_that_cannot_be_renewed_is_refused(one_log: sl.Log, lease_s: float) -> None:
    with pytest.raises(sl.InvalidError, match="lease_s"):
        one_log.consumer("orders", "billing", lease_s=lease_s)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_of_a_fork_holds_nothing(one_log: sl.Log, clock: FakeClock) -> None:
    with member(one_log, clock) as consumer:
        delivery = consumer.next(0.0)
        assert delivery is not None
        assert consumer.holds(delivery)

        pid = os.fork()
        if pid == 0:
            os._exit(1 if consumer.holds(delivery) else 0)

        assert os.waitpid(pid, 0)[1] == 0
