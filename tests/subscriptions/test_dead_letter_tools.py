"""Dead letters: listed, inspected, chosen, tried, and redriven to consumers or a topic."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.triggers import DeadLetter, attempts, dead_letters, redrive


@pytest.fixture
def log(tmp_path: Path) -> Iterator[sl.Log]:
    with sl.open(f"file:{tmp_path / 'log'}") as opened:
        opened.create_topic("orders", partitions=2)
        for number in range(4):
            event = sl.Event("placed" if number % 2 else "paid", {"n": number}, key=f"k{number}")
            opened.append("orders", event, partition=number % 2)
        yield opened


def fail_all(log: sl.Log, name: str = "billing", reason: str = "no such customer") -> None:
    with log.consumer("orders", name, deliveries_max=1) as consumer:
        while (delivery := consumer.next(timeout_s=0)) is not None:
            assert consumer.nack(delivery, reason=reason)


def handle_all(log: sl.Log, name: str = "billing") -> list[int]:
    with log.consumer("orders", name, deliveries_max=1) as consumer:
        handled = []
        while (delivery := consumer.next(timeout_s=0)) is not None:
            handled.append(delivery.record.payload["n"])
            consumer.ack(delivery)
        return sorted(handled)


def numbers(found: list[DeadLetter]) -> list[int]:
    return sorted(letter.event.payload["n"] for letter in found)


def test_dead_letters_are_chosen_by_a_function_or_a_predicate(log: sl.Log) -> None:
    fail_all(log)

    by_call = list(dead_letters(log, "orders", where=lambda letter: letter.key == "k2"))
    by_text = list(dead_letters(log, "orders", where="kind = 'paid'"))
    by_payload = list(dead_letters(log, "orders", where="payload.n >= 2"))

    assert (numbers(by_call), numbers(by_text), numbers(by_payload)) == ([2], [0, 2], [2, 3])
    with pytest.raises(sl.PredicateError):
        list(dead_letters(log, "orders", where="nonsense ="))


def test_a_dry_run_says_what_would_be_redriven_and_redrives_nothing(log: sl.Log) -> None:
    fail_all(log)

    tried = redrive(log, "orders", where="kind = 'paid'", dry_run=True)

    assert numbers(tried) == [0, 2]
    assert not any(letter.is_redriven for letter in tried)
    assert handle_all(log) == []
    done = redrive(log, "orders", where="kind = 'paid'")
    assert numbers(done) == [0, 2]
    assert all(letter.is_redriven for letter in done)
    assert handle_all(log) == [0, 2]
    assert numbers(redrive(log, "orders")) == [1, 3]


def test_dead_letters_are_redriven_into_a_topic_once(log: sl.Log) -> None:
    fail_all(log)
    log.create_topic("retried")
    log.delete_consumer("orders", "billing")

    first = redrive(log, "orders", to="retried", offsets=[0, 1])
    again = redrive(log, "orders", to="retried", offsets=[0, 1])
    rest = redrive(log, "orders", to="retried")

    assert (len(first), again, len(rest)) == (2, [], 2)
    moved = list(log.read("retried", 0, 0))
    assert sorted(record.payload["n"] for record in moved) == [0, 1, 2, 3]
    assert {record.key for record in moved} == {"k0", "k1", "k2", "k3"}
    assert not any(name.startswith("strandline.") for each in moved for name in each.headers)
    assert all(letter.is_redriven for letter in dead_letters(log, "orders"))
    assert handle_all(log, "billing") == [0, 1, 2, 3], "only the topic's own, as a new consumer"


def test_a_redrive_into_a_topic_that_was_cut_short_is_finished_once(log: sl.Log) -> None:
    fail_all(log)
    log.create_topic("retried")
    append, calls = log.append, []

    class CutError(Exception):
        pass

    def cut(*args: object, **terms: object) -> object:
        calls.append(args[0])
        if len(calls) == 2:
            raise CutError
        return append(*args, **terms)  # type: ignore[arg-type]

    log.append = cut  # type: ignore[method-assign, assignment]
    with pytest.raises(CutError):
        redrive(log, "orders", to="retried")
    log.append = append  # type: ignore[method-assign]
    done = redrive(log, "orders", to="retried")

    assert len(done) == 4
    assert log.marks("retried", 0).high == 4


def test_bytes_are_redriven_into_a_topic_as_they_were(log: sl.Log) -> None:
    log.create_topic("raw", value_kind="bytes")
    log.create_topic("raw-again", value_kind="bytes")
    log.append("raw", b"\x00\xff", key="k")
    with log.consumer("raw", "c", deliveries_max=1) as consumer:
        consumer.nack(consumer.next(timeout_s=0))  # type: ignore[arg-type]

    with pytest.raises(sl.InvalidError, match="of the same kind"):
        redrive(log, "raw", to="orders")
    redrive(log, "raw", to="raw-again")

    (record,) = log.read("raw-again", 0, 0)
    assert (record.value, record.key) == (b"\x00\xff", "k")


def test_each_attempt_at_a_record_is_shown_with_its_cause(log: sl.Log) -> None:
    fail_all(log, reason="first")
    fail_all(log, "other", reason="of another")
    (first,) = [
        each for each in dead_letters(log, "orders", consumer="billing") if each.key == "k1"
    ]
    redrive(log, "orders", consumer="billing", offsets=[first.offset])
    fail_all(log, reason="second")

    found = attempts(log, "orders", first.offset)

    assert [(each.reason, each.is_redriven) for each in found] == [
        ("first", True),
        ("second", False),
    ]
    assert {each.record_offset for each in found} == {first.record_offset}
    assert found[0].timestamp <= found[1].timestamp
    for topic in ("orders", log.topic("orders")):
        with pytest.raises(
            sl.InvalidError, match=r"no dead letter at .* topic='orders' offset=999"
        ):
            attempts(log, topic, 999)


def test_the_async_face_is_refused_with_what_to_pass(log: sl.Log) -> None:
    async def call() -> None:
        async with log as face:
            for refused in (
                lambda: dead_letters(face, "orders"),  # type: ignore[arg-type]
                lambda: redrive(face, "orders"),  # type: ignore[arg-type]
                lambda: sl.subscribe(face, "orders"),  # type: ignore[call-overload]
                lambda: sl.Consumer(face, "orders", "c"),  # type: ignore[arg-type]
            ):
                with pytest.raises(sl.InvalidError, match=r"pass log\.blocking"):
                    refused()

    asyncio.run(call())


def test_a_delivery_is_handed_back_as_it_was_given(log: sl.Log) -> None:
    with log.consumer("orders", "billing") as consumer:
        delivery = consumer.next(timeout_s=0)
        assert delivery is not None
        consumer.hand_back([delivery])
        consumer.hand_back([delivery.record])


@pytest.mark.parametrize("shared", [False, True])
def test_a_record_that_fails_again_after_its_dead_letter_was_handled_is_one_again(
    shared: bool,
) -> None:
    log = sl.open("memory:")
    log.create_topic("orders")
    log.append("orders", sl.Event("placed", {"id": 1}))
    die(log, shared=shared, reason="first")
    redrive(log, "orders")
    with opened(log, shared=shared) as consumer:
        consumer.ack(consumer.next(0.0))
        consumer.seek(0, 0)

    die(log, shared=shared, reason="second")

    found = list(dead_letters(log, "orders"))
    assert [(each.reason, each.is_redriven) for each in found] == [
        ("first", True),
        ("second", False),
    ]
    assert [each.reason for each in redrive(log, "orders")] == ["second"]


def die(log: sl.Log, *, shared: bool, reason: str) -> None:
    with opened(log, shared=shared, deliveries_max=1) as consumer:
        assert consumer.nack(consumer.next(0.0), reason=reason)


def opened(log: sl.Log, *, shared: bool, **options: Any) -> Any:
    if shared:
        return log.consumer("orders", "billing", shared=True, **options)
    return log.consumer("orders", "billing", **options)
