"""Subscriptions with a predicate: which records come; the rest is as without a predicate."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import (
    PredicateError,
    PredicateEvalError,
    UnsupportedPredicateError,
)
from strandline.testing import FakeClock
from tests.subscriptions.doubles import PATIENCE_S, fill
from tests.threads import on_thread


@pytest.fixture(params=["memory:", "file:", "sqlite:"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    url = request.param if request.param == "memory:" else f"{request.param}{tmp_path / 'log'}"
    with sl.open(url) as opened:
        yield opened


@pytest.fixture
def batches(log: sl.Log) -> sl.Log:
    log.create_topic("orders", value_kind=sl.ValueKind.BATCH)
    for amounts in ([50, 150, None], [10], [200, 5]):
        log.append("orders", pa.record_batch({"amount": pa.array(amounts, pa.int64())}))
    return log


@pytest.fixture
def events(log: sl.Log) -> sl.Log:
    log.create_topic("notes")
    log.append("notes", sl.Event("note.made", {}, key="a", headers={"to": "x"}))
    log.append("notes", sl.Event("note.read", {}, key="b"))
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    log.append("notes", sl.Event("note.made", {}, key="b", occurred_at=moment))
    return log


def drained(subscription: sl.Subscription[Any]) -> list[Any]:
    found = []
    with subscription:
        while (item := subscription.next(timeout_s=0)) is not None:
            found.append(item)
    return found


def offsets(log: sl.Log, topic: str, where: str) -> list[int]:
    return [record.offset for record in drained(log.subscribe(topic, where=where))]


def test_a_batch_comes_with_its_matching_rows_and_its_own_offset(batches: sl.Log) -> None:
    found = drained(batches.subscribe("orders", where="amount > 100"))

    assert [(r.offset, r.value["amount"].to_pylist()) for r in found] == [(0, [150]), (2, [200])]


def test_rows_of_types_that_arrow_cannot_take_from_are_matched(log: sl.Log) -> None:
    log.create_topic("views", value_kind=sl.ValueKind.BATCH)
    log.append("views", pa.record_batch({"a": pa.array(["x", None, "y"], pa.string_view())}))

    found = drained(log.subscribe("views", where="a = 'y'"))

    assert [record.value.to_pylist() for record in found] == [[{"a": "y"}]]


def test_a_batch_that_matches_as_a_whole_comes_as_it_is(batches: sl.Log) -> None:
    plain = drained(batches.subscribe("orders"))

    assert drained(batches.subscribe("orders", where="amount > 0 OR amount IS NULL")) == plain


def test_blank_text_is_no_predicate(batches: sl.Log) -> None:
    assert offsets(batches, "orders", " \n") == [0, 1, 2]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("kind = 'note.made'", [0, 2]),
        ("key = 'b' AND kind LIKE '%.made'", [2]),
        ("headers['to'] = 'x'", [0]),
        ("headers['to'] IS NULL", [1, 2]),
        ("occurred_at = TIMESTAMP '2020-01-01 00:00:00Z'", [2]),
        ("timestamp > '2020-01-01'", [0, 1, 2]),
        ("occurred_at IS NULL", [0, 1]),
        ("1 = 1", [0, 1, 2]),
        ("1 = 2", []),
    ],
)
def test_events_offer_what_they_carry(events: sl.Log, where: str, expected: list[int]) -> None:
    assert offsets(events, "notes", where) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("payload.amount > 100", [0, 1]),
        ("payload.amount > 100 AND payload.customer.country = 'DE'", [0]),
        ("payload.items[0].sku IS NOT NULL", [0]),
        ("payload.amount IS NULL", [3]),
        ("kind = 'order' AND payload.amount::INT = 99", [2]),
    ],
)
def test_events_are_picked_by_their_payloads(log: sl.Log, where: str, expected: list[int]) -> None:
    log.create_topic("orders")
    log.append(
        "orders",
        sl.Event("order", {"amount": 150, "customer": {"country": "DE"}, "items": [{"sku": 1}]}),
    )
    log.append("orders", sl.Event("order", {"amount": "150", "customer": "DE", "items": []}))
    log.append("orders", sl.Event("order", {"amount": 99.5}))
    log.append("orders", sl.Event("note", None))

    assert offsets(log, "orders", where) == expected
    assert [each.offset for each in log.scope().replay("orders", 0, where=where)] == expected


def test_the_present_time_is_that_of_the_log_when_subscribing() -> None:
    clock = FakeClock()
    with sl.open("memory:", clock=clock) as log:
        log.create_topic("notes")
        log.append("notes", sl.Event("before"))
        clock.advance(3600)
        with log.subscribe(
            "notes", where="timestamp >= current_timestamp - INTERVAL 1 MINUTE"
        ) as recent:
            log.append("notes", sl.Event("now"))
            clock.advance(3600)
            log.append("notes", sl.Event("later"))

            assert [record.kind for record in drained(recent)] == ["now", "later"]


def test_live_records_are_filtered_like_history(events: sl.Log) -> None:
    with events.subscribe("notes", where="key = 'c'") as subscription:
        assert subscription.next(timeout_s=0) is None
        events.append("notes", sl.Event("note.made", {}, key="a"))
        events.append("notes", sl.Event("note.made", {}, key="c"))

        assert next(subscription).offset == 4


def test_cursors_and_markers_move_as_if_everything_had_come(events: sl.Log) -> None:
    subscription = events.subscribe("notes", where="key = 'a'", markers=True)

    found = drained(subscription)

    assert [type(item).__name__ for item in found] == ["Record", "CaughtUp"]
    assert found[1].offset == 3
    with events.subscribe("notes", where="key = 'none'") as none:
        assert none.next(timeout_s=0) is None
        assert none.assignment.position(0) == 3


def test_a_loop_is_given_the_same(events: sl.Log) -> None:
    async def first() -> int:
        with events.subscribe("notes", where="key = 'b'") as subscription:
            async for record in sl.AsyncSubscription(subscription):
                return int(record.offset)
        return -1

    assert asyncio.run(first()) == 1


def test_pages_that_end_with_a_match_follow_each_other_without_a_poll() -> None:
    clock = FakeClock()
    with sl.open("memory:", clock=clock, retention=False) as log:
        log.create_topic("notes")
        fill(log, "notes", 0, 3)
        with log.subscribe("notes", where="1 = 1", read_ahead=1, clock=clock) as notes:
            found = on_thread(lambda: [notes.next() for _ in range(3)]).result(PATIENCE_S)

    assert [each.offset for each in found] == [0, 1, 2]


@pytest.mark.slow
def test_a_loop_continues_with_other_tasks_while_nothing_matches(log: sl.Log) -> None:
    log.create_topic("notes")
    log.append_many("notes", [sl.Event("note.made", {}) for _ in range(400)])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def search() -> None:
        counting = asyncio.create_task(count())
        with log.subscribe("notes", where="kind = 'other'", read_ahead=10) as subscription:
            assert await sl.AsyncSubscription(subscription).next(timeout_s=0) is None
        counting.cancel()

    asyncio.run(search())

    assert turns >= 40


def test_each_topic_has_its_own_columns(batches: sl.Log, events: sl.Log) -> None:
    batches.create_topic("refunds", value_kind=sl.ValueKind.BATCH)
    batches.append("refunds", pa.record_batch({"amount": [99.5, 100.5]}))

    found = drained(batches.subscribe(["orders", "refunds"], where="amount > 100"))

    assert sorted((r.topic, r.value.num_rows) for r in found) == [
        ("orders", 1),
        ("orders", 1),
        ("refunds", 1),
    ]
    with pytest.raises(PredicateError, match="no column amount"):
        events.subscribe(["orders", "notes"], where="amount > 100")


def test_wrong_text_is_refused_when_subscribing(events: sl.Log) -> None:
    """TC10."""
    with pytest.raises(PredicateError) as caught:
        events.subscribe("notes", where="kind = 'a' AND nothing = 1")
    assert caught.value.position == 15
    with pytest.raises(UnsupportedPredicateError):
        events.subscribe("notes", where="count(kind) > 1")
    events.create_topic("sums", value_kind=sl.ValueKind.BATCH)
    with pytest.raises(UnsupportedPredicateError):
        events.subscribe("sums", where="SUM(id) > 0")
    with pytest.raises(PredicateError):
        events.subscribe("sums", where="(((")
    events.create_topic("raw", value_kind=sl.ValueKind.BYTES)
    with pytest.raises(sl.InvalidError, match="no columns"):
        events.subscribe("raw", where="TRUE")


def test_a_record_that_fails_is_met_in_its_turn_and_can_be_passed(batches: sl.Log) -> None:
    batches.append("orders", pa.record_batch({"amount": pa.array([0], pa.int64())}))
    batches.append("orders", pa.record_batch({"amount": pa.array([1], pa.int64())}))

    with batches.subscribe("orders", where="1000 / amount >= 100") as subscription:
        assert [next(subscription).offset for _ in range(2)] == [1, 2]
        for _ in range(2):
            with pytest.raises(PredicateEvalError) as caught:
                next(subscription)
            assert "offset=3" in "".join(caught.value.__notes__)
        subscription.assignment.remove(0)
        subscription.assignment.add(0, 4)
        assert next(subscription).offset == 4


def test_a_column_that_a_batch_has_not_is_an_error_at_that_batch(batches: sl.Log) -> None:
    batches.append("orders", pa.record_batch({"price": [1]}))

    with batches.subscribe("orders", where="amount >= 5") as subscription:
        assert [next(subscription).offset for _ in range(3)] == [0, 1, 2]
        with pytest.raises(PredicateError, match="no column amount"):
            next(subscription)


def test_an_event_that_fails_is_met_in_its_turn(log: sl.Log) -> None:
    log.create_topic("notes")
    for size in ("5", "many", "7"):
        log.append("notes", sl.Event("note.made", {}, headers={"size": size}))

    with log.subscribe("notes", where="CAST(headers['size'] AS INT) > 4") as subscription:
        assert next(subscription).offset == 0
        with pytest.raises(PredicateEvalError):
            next(subscription)
