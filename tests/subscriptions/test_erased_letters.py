"""What becomes of dead letters whose key is erased, before and after they were redriven."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import strandline as sl
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, discard, redrive
from strandline.values.internal_topics import DEAD_LETTERS_PREFIX, REDRIVEN_PREFIX


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[sl.Log]:
    with sl.open("memory:", clock=clock, retention=False) as opened:
        opened.create_topic("orders")
        for key in ("ann", "bob"):
            opened.append("orders", sl.Event("placed", {"of": key}, key=key))
        yield opened


def dead_letter_all(log: sl.Log, **options: Any) -> None:
    with log.consumer("orders", "billing", **options) as billing:
        while (delivery := billing.next(timeout_s=0)) is not None:
            billing.dead_letter(delivery, reason="no such customer")


def test_an_erased_letter_is_left_out_and_others_are_redriven(log: sl.Log) -> None:
    dead_letter_all(log)

    log.erase("orders", key="ann")

    assert [letter.key for letter in dead_letters(log, "orders")] == ["bob"]
    assert [letter.key for letter in redrive(log, "orders", dry_run=True)] == ["bob"]
    assert [letter.key for letter in discard(log, "orders")] == ["bob"]


@pytest.mark.parametrize("hand_on", [redrive, discard])
@pytest.mark.parametrize("options", [{}, {"shared": True}, {"on_dead_letter": "block-key"}])
def test_what_was_redriven_or_discarded_is_erased_and_not_delivered(
    hand_on: Callable[..., Any], options: dict[str, Any], log: sl.Log
) -> None:
    dead_letter_all(log, **options)
    hand_on(log, "orders")

    report = log.erase("orders", key="ann")

    assert report.erased == 3
    for name in (f"{DEAD_LETTERS_PREFIX}orders", f"{REDRIVEN_PREFIX}orders"):
        assert [record.key for record in log.read(log.topic(name), 0, 0)] == [None, "bob"]
    with log.consumer("orders", "billing", **options) as billing:
        came = [each.record.key for each in iter(lambda: billing.next(timeout_s=0), None)]
    assert came == (["bob"] if hand_on is redrive else [])
    assert [letter.is_redriven for letter in dead_letters(log, "orders")] == [True]


@pytest.mark.parametrize("shared", [False, True])
def test_a_key_is_no_longer_blocked_once_its_letter_is_erased(
    shared: bool, log: sl.Log, clock: FakeClock
) -> None:
    options: dict[str, Any] = {"on_dead_letter": "block-key", "clock": clock, "shared": shared}
    with log.consumer("orders", "billing", **options) as billing:
        for _ in range(2):
            delivery = billing.next(timeout_s=0)
            assert delivery is not None
            billing.dead_letter(delivery)
        assert billing.next(timeout_s=0) is None

        log.erase("orders", key="ann")
        log.append("orders", sl.Event("placed", {"of": "the next ann"}, key="ann"))
        clock.advance(2)

        again = billing.next(timeout_s=0)
        assert again is not None
        assert again.record.payload == {"of": "the next ann"}
        billing.ack(again)
