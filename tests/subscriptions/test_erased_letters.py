"""Dead letters whose key is erased, before and after they were redriven."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import TopicName
from strandline.stores.memory import MemoryStore
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.dead_letters import append_dead_letter
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, discard, redrive
from strandline.values import Topic
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


class ErasingLog(sl.Log):
    """Erases keys at the moment in which something is appended to an internal topic."""

    def __init__(self, store: MemoryStore, clock: FakeClock) -> None:
        super().__init__(store, clock=clock)
        self.to_erase: list[str] = []

    def append(self, topic: TopicName, *args: Any, **options: Any) -> Any:
        """Erase before the record is appended, as another process would."""
        if isinstance(topic, Topic) and topic.name.startswith(
            (DEAD_LETTERS_PREFIX, REDRIVEN_PREFIX)
        ):
            while self.to_erase:
                self.erase("orders", key=self.to_erase.pop())
        return super().append(topic, *args, **options)


def letters_in(log: sl.Log) -> list[tuple[str | None, object]]:
    letters = log.read(log.topic(f"{DEAD_LETTERS_PREFIX}orders"), 0, 0)
    return [(record.key, record.payload) for record in letters]


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file() and text in each.read_bytes()]


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
@pytest.mark.parametrize("options", [{}, {"shared": True}])
@pytest.mark.parametrize("ending", ["dead_letter", "nack"])
def test_a_record_erased_in_hand_becomes_an_erased_dead_letter(
    scheme: str, options: dict[str, Any], ending: str, tmp_path: Path
) -> None:
    with sl.open(f"{scheme}:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("placed", {"email": "ann@example.org"}, key="ann-17"))
        with log.consumer("orders", "billing", deliveries_max=1, **options) as billing:
            in_hand = billing.next(timeout_s=5)
            assert in_hand is not None
            log.erase("orders", key="ann-17")

            getattr(billing, ending)(in_hand, reason="no such customer ann@example.org")

            assert billing.next(timeout_s=0) is None
        assert letters_in(log) == [(None, None)]
        assert list(dead_letters(log, "orders")) == []
    assert files_with(tmp_path, b"ann@example.org") == []
    assert files_with(tmp_path, b"ann-17") == []


@pytest.mark.parametrize("options", [{}, {"shared": True}])
def test_a_redriven_record_erased_in_hand_becomes_an_erased_dead_letter(
    options: dict[str, Any], log: sl.Log
) -> None:
    dead_letter_all(log, **options)
    redrive(log, "orders")
    log.trim("orders", 0, 2, force=True)
    with log.consumer("orders", "billing", **options) as billing:
        in_hand = billing.next(timeout_s=0)
        assert in_hand is not None
        assert in_hand.record.key == "ann"
        log.erase("orders", key="ann")

        billing.dead_letter(in_hand, reason="again")

    assert "ann" not in [key for key, _ in letters_in(log)]


@pytest.mark.parametrize("shared", [False, True])
def test_an_erasure_while_a_record_is_dead_lettered_erases_the_dead_letter(
    shared: bool, clock: FakeClock
) -> None:
    with ErasingLog(MemoryStore(clock), clock) as log:
        log.create_topic("orders")
        for key in ("ann", "bob"):
            log.append("orders", sl.Event("placed", {"of": key}, key=key))
        log.to_erase = ["ann"]

        dead_letter_all(log, shared=shared)

        assert letters_in(log) == [(None, None), ("bob", {"of": "bob"})]


def test_an_erasure_while_a_dead_letter_is_redriven_erases_the_redriven_record(
    clock: FakeClock,
) -> None:
    with ErasingLog(MemoryStore(clock), clock) as log:
        log.create_topic("orders")
        for key in ("ann", "bob", "cid"):
            log.append("orders", sl.Event("placed", {"of": key}, key=key))
        dead_letter_all(log)
        # One when it is its turn, and one that was listed before.
        log.to_erase = ["bob", "ann"]

        redrive(log, "orders")

        redriven = log.read(log.topic(f"{REDRIVEN_PREFIX}orders"), 0, 0)
        assert [record.key for record in redriven] == [None, "cid"]


def test_a_repeated_dead_letter_of_an_erased_record_is_erased(
    log: sl.Log, clock: FakeClock
) -> None:
    whose = ConsumerName(log.topic("orders"), "billing", None)
    (record,) = log.read("orders", 0, 0, records_max=1)
    log.erase("orders", key="ann")
    log.append("orders", sl.Event("placed", {"of": "bob"}, key="bob"))
    (tombstone,) = log.read("orders", 0, 0, records_max=1)

    append_dead_letter(log, whose, record, deliveries=1, reason="no such customer")
    append_dead_letter(log, whose, tombstone, deliveries=1, reason="no such customer")

    assert letters_in(log) == [(None, None)]


def test_a_record_of_a_dropped_topic_can_be_dead_lettered_again(log: sl.Log) -> None:
    dead_letter_all(log)
    log.drop_topic("orders")
    log.create_topic("orders")
    log.consumer("orders", "billing").close()
    redrive(log, "orders")

    dead_letter_all(log)

    assert [key for key, _ in letters_in(log)] == ["ann", "bob", "ann", "bob"]
