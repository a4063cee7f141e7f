"""Consumers with a predicate: what does not match is never given, and holds nothing back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.predicates import PredicateError
from strandline.stores.memory import MemoryStore
from strandline.subscriptions import Consumer
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.redriving import dead_letters
from strandline.testing import FakeClock
from strandline.values import Offset, UnavailableError

LARGE = "payload.amount >= 100"


@pytest.fixture
def log() -> sl.Log:
    made = sl.open("memory:")
    made.create_topic("orders")
    return made


def append(log: sl.Log, *amounts: object) -> None:
    log.append_many("orders", [sl.Event("order", {"amount": each}) for each in amounts])


def given(consumer: Consumer, count: int) -> list[int]:
    found = [consumer.next(timeout_s=0) for _ in range(count)]
    return [each.record.offset for each in found if each is not None]


def test_a_consumer_gets_what_matches_and_its_cursor_passes_the_rest(log: sl.Log) -> None:
    append(log, 5, 100, 6, 7, 200, 8)

    with log.consumer("orders", "billing", where=LARGE) as billing:
        first, second = billing.next(timeout_s=0), billing.next(timeout_s=0)
        assert first is not None
        assert second is not None
        assert (first.record.offset, second.record.offset) == (1, 4)
        assert billing.next(timeout_s=0) is None
        assert billing.ack(second) == 1
        assert billing.ack(first) == 6
        assert billing.passed_over.count == 4

    assert log.cursor("orders", "billing", 0) == 6


def test_an_unacked_match_holds_the_cursor_back_and_comes_again(log: sl.Log) -> None:
    append(log, 1, 100, 2, 300, 3)

    with log.consumer("orders", "billing", where=LARGE) as billing:
        assert given(billing, 3) == [1, 3]
        assert billing.nack(next(iter(log.read("orders", 0, 3)))) is False
        assert given(billing, 1) == [3]

    assert log.cursor("orders", "billing", 0) == 1
    with log.consumer("orders", "billing", where=LARGE) as again:
        assert given(again, 3) == [1, 3]


def test_without_a_match_the_cursor_is_stored_within_a_poll(log: sl.Log) -> None:
    clock = FakeClock()
    with log.consumer("orders", "billing", where=LARGE, clock=clock) as billing:
        append(log, 1, 2, 3)
        assert billing.next(timeout_s=0) is None
        assert billing.next(timeout_s=0) is None
        assert log.cursor("orders", "billing", 0) == 3

        append(log, 4)
        assert billing.next(timeout_s=0) is None
        assert billing.next(timeout_s=0) is None
        assert log.cursor("orders", "billing", 0) == 3
        clock.advance(2.0)
        assert billing.next(timeout_s=0) is None
        assert log.cursor("orders", "billing", 0) == 4


class FailingAcks(Log):
    """Stores no cursor for as long as that is set."""

    is_failing = False

    def ack(self, *place: Any, **terms: Any) -> Offset:
        if self.is_failing:
            raise UnavailableError("this log rests")
        return super().ack(*place, **terms)


def test_a_cursor_that_could_not_be_stored_is_stored_a_poll_later() -> None:
    clock, log = FakeClock(), FailingAcks(MemoryStore())
    log.create_topic("orders")
    append(log, 1, 2, 3)
    with log.consumer("orders", "billing", where=LARGE, clock=clock) as billing:
        log.is_failing = True
        with pytest.raises(UnavailableError):
            billing.next(timeout_s=0)

        log.is_failing = False
        clock.advance(2.0)
        assert billing.next(timeout_s=0) is None

        assert log.cursor("orders", "billing", 0) == 3


def test_a_record_on_which_the_predicate_fails_is_dead_lettered(log: sl.Log) -> None:
    append(log, 1, "many", 100)

    with log.consumer("orders", "billing", where="payload.amount::INT >= 100") as billing:
        delivery = billing.next(timeout_s=0)
        assert delivery is not None
        assert delivery.record.offset == 2
        billing.ack(delivery)

    (letter,) = dead_letters(log, "orders")
    assert (letter.record_offset, letter.consumer) == (1, "billing")
    assert "this predicate fails on a row" in letter.reason
    assert log.cursor("orders", "billing", 0) == 3


def test_a_seek_goes_back_to_what_matches(log: sl.Log) -> None:
    append(log, 100, 1, 200, 2)

    with log.consumer("orders", "billing", where=LARGE) as billing:
        for _ in range(2):
            delivery = billing.next(timeout_s=0)
            assert delivery is not None
            billing.ack(delivery)
        assert billing.next(timeout_s=0) is None
        billing.seek(0, 1)
        assert given(billing, 2) == [2]


def test_the_async_face_is_the_same(log: sl.Log) -> None:
    append(log, 1, 100, 2)

    async def run() -> list[int]:
        async with log.consumer("orders", "billing", where=LARGE) as billing:
            delivery = await billing.next(timeout_s=1)
            assert delivery is not None
            await billing.ack(delivery)
            assert await billing.next(timeout_s=0) is None
            return [delivery.record.offset]

    assert asyncio.run(run()) == [1]
    assert log.cursor("orders", "billing", 0) == 3


def test_text_that_does_not_fit_is_refused_before_the_consumer_exists(log: sl.Log) -> None:
    with pytest.raises(PredicateError, match="position=0"):
        log.consumer("orders", "billing", where="amount > 100")

    assert not log.consumers("orders")


@pytest.mark.parametrize("scheme", ["file:{}/log", "sqlite:{}/log.db"])
def test_a_consumer_that_is_opened_again_continues_behind_what_it_passed(
    scheme: str, tmp_path: Path
) -> None:
    with sl.open(scheme.format(tmp_path)) as log:
        log.create_topic("orders")
        append(log, *range(50), 100, *range(50))
        with log.consumer("orders", "billing", where=LARGE) as billing:
            delivery = billing.next(timeout_s=0)
            assert delivery is not None
            billing.ack(delivery)
            assert billing.next(timeout_s=0) is None
    with sl.open(scheme.format(tmp_path)) as log:
        assert log.cursor("orders", "billing", 0) == 101


def test_runs_that_are_passed_over_join_the_floor_in_any_order_of_acks() -> None:
    outstanding = Outstanding(Offset(0), {})
    assert outstanding.pass_over(3) == 3
    assert outstanding.floor == 3
    outstanding.deliver(3)
    assert outstanding.pass_over(10) == 6
    outstanding.deliver(10)
    assert outstanding.pass_over(12) == 1

    outstanding.settle([10])
    assert (outstanding.floor, outstanding.floor_after([3])) == (3, 12)
    outstanding.settle([3])

    assert outstanding.floor == 12
    assert outstanding.pass_over(5) == 0


def test_what_was_passed_over_is_stored_by_the_close(log: sl.Log) -> None:
    append(log, 1, 2)
    with log.consumer("orders", "billing", where=LARGE) as billing:
        assert given(billing, 1) == []
        append(log, 3, 4)
        assert given(billing, 1) == []
        assert log.cursor("orders", "billing", 0) == 2

    assert log.cursor("orders", "billing", 0) == 4
