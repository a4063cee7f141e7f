"""What a work queue does with redriven records whose members die, or lose them."""

from collections.abc import Iterator
from typing import Any

import pytest

import strandline as sl
from strandline.subscriptions import SharedConsumer
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, redrive

VISIBILITY_S = 30.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[sl.Log]:
    with sl.open("memory:", clock=clock, retention=False) as opened:
        opened.create_topic("jobs")
        yield opened


def join(log: sl.Log, clock: FakeClock, **options: Any) -> SharedConsumer:
    return log.consumer(
        *("jobs", "workers"), shared=True, clock=clock, visibility_s=VISIBILITY_S, **options
    )


def redrive_one(log: sl.Log, member: SharedConsumer) -> None:
    log.append("jobs", sl.Event("job", {"n": 0}))
    member.dead_letter(given(member), reason="broken")
    redrive(log, "jobs")


def given(member: SharedConsumer) -> sl.Delivery:
    found = member.next(timeout_s=0)
    assert found is not None
    return found


def open_letters(log: sl.Log) -> list[tuple[str, int]]:
    return [
        (each.reason, each.deliveries) for each in dead_letters(log, "jobs") if not each.is_redriven
    ]


@pytest.mark.parametrize("end", ["lease", "close"])
def test_a_redriven_record_that_is_never_settled_is_a_dead_letter_again(
    end: str, log: sl.Log, clock: FakeClock
) -> None:
    member = join(log, clock, deliveries_max=2)
    redrive_one(log, member)

    for count in (1, 2):
        assert given(member).count == count
        if end == "close":
            member.close()
            member = join(log, clock, deliveries_max=2)
        else:
            clock.advance(VISIBILITY_S + 1)

    assert member.next(timeout_s=0) is None
    assert open_letters(log) == [("delivered as often as allowed, and never acked", 2)]
    redrive(log, "jobs")
    member.ack(given(member))
    assert open_letters(log) == []
    member.close()


@pytest.mark.parametrize("call", ["nack", "dead_letter"])
def test_a_member_that_has_lost_a_redriven_record_dead_letters_nothing(
    call: str, log: sl.Log, clock: FakeClock
) -> None:
    late, other = join(log, clock, deliveries_max=1), join(log, clock, deliveries_max=2)
    redrive_one(log, late)
    lost = given(late)
    clock.advance(VISIBILITY_S + 1)
    other.ack(given(other))

    with pytest.raises(sl.ConflictError):
        getattr(late, call)(lost, reason="too late")

    assert open_letters(log) == []
    late.close()
    other.close()


def test_an_ack_with_a_lost_redriven_record_acks_the_others(log: sl.Log, clock: FakeClock) -> None:
    late, other = join(log, clock), join(log, clock)
    redrive_one(log, late)
    lost = given(late)
    clock.advance(VISIBILITY_S + 1)
    other.ack(given(other))
    log.append("jobs", sl.Event("job", {"n": 1}))
    own = given(late)

    with pytest.raises(sl.ConflictError):
        late.ack([lost, own])

    assert log.cursor("jobs", "workers", 0) == 2
    late.close()
    other.close()


def test_a_record_that_comes_again_after_a_seek_is_acked_though_its_redrive_was_lost(
    log: sl.Log, clock: FakeClock
) -> None:
    late, other = join(log, clock), join(log, clock)
    redrive_one(log, late)
    given(late)
    clock.advance(VISIBILITY_S + 1)
    other.ack(given(other))
    other.seek(0, 0)

    again = given(late)
    late.ack(again)

    assert log.cursor("jobs", "workers", 0) == 1
    late.close()
    other.close()


def test_a_redriven_record_is_hidden_for_as_long_as_it_is_extended(
    log: sl.Log, clock: FakeClock
) -> None:
    member, other = join(log, clock), join(log, clock)
    redrive_one(log, member)
    delivery = given(member)

    member.extend(delivery, 3 * VISIBILITY_S)
    clock.advance(2 * VISIBILITY_S)

    assert other.next(timeout_s=0) is None
    member.ack(delivery)
    clock.advance(2 * VISIBILITY_S)
    assert other.next(timeout_s=0) is None
