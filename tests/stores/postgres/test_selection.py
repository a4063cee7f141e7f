"""Predicates that the server evaluates in part: the same records, with fewer fetched."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import strandline as sl
from strandline.log import parts_of
from strandline.log.selecting_store import RecordBound
from strandline.stores.postgres import selecting
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.screening import EventScreen
from strandline.subscriptions.selecting import Selecting
from strandline.values import Partition

pytestmark = pytest.mark.slow

KINDS = ("paid", "päid", "pa", "p", "Paid", "z\U0001f600", "\uffff", "PAID")
KEYS = (None, "", "a", "ab", "A", "é", "\U00010400", "\uffee")
RECORDS = 200


@pytest.fixture(scope="module")
def events() -> list[sl.Event]:
    chosen = random.Random(19)
    return [
        sl.Event(chosen.choice(KINDS), {"n": number}, key=chosen.choice(KEYS))
        for number in range(RECORDS)
    ]


@pytest.fixture
def log(new_url: Callable[[], str], events: list[sl.Event]) -> Iterator[sl.Log]:
    with sl.open(new_url()) as opened:
        opened.create_topic("orders")
        opened.append_many("orders", events)
        yield opened


def texts() -> Iterator[str]:
    for column, values in (("kind", KINDS), ("key", KEYS[1:])):
        for value in values:
            for sign in ("=", "<", "<=", ">", ">="):
                yield f"{column} {sign} '{value}'"
            yield f"startswith({column}, '{value}')"
        yield f"{column} IN ('{values[0]}', '{values[1]}', NULL)"
    yield "key IS NULL"
    yield "key IS NOT NULL AND kind = 'paid'"
    yield "timestamp > TIMESTAMP '2020-01-01 00:00:00'"
    yield "timestamp <= TIMESTAMP '2020-01-01 00:00:00.5'"
    yield "occurred_at IS NULL"


def differences(log: sl.Log) -> list[str]:
    """Return the predicates of which the server finds another first record than kernels do."""
    records = list(log.read("orders", 0, 0))
    place, selecting_of = TopicPartition(log.topic("orders"), Partition(0)), Selecting(log)
    found = []
    for text in texts():
        screen = EventScreen(text, 0)
        matching = [each.offset for each in screen.sift(records) if isinstance(each, sl.Record)]
        for start in (0, RECORDS // 2):
            expected = next((each for each in matching if each >= start), RECORDS)
            if selecting_of.first_wanted(place, start, screen) != expected:
                found.append(text)
    return found


def test_the_server_finds_the_record_that_kernels_find(log: sl.Log) -> None:
    assert not differences(log)


def truncated(column: Any, bound: Any) -> Any:
    return f"{column} = %s", [bound.values[0].encode()]


def off_by_one(column: Any, bound: Any) -> Any:
    signs = {"eq": "=", "lt": "<", "le": "<", "gt": ">", "ge": ">"}
    return f"{column} {signs[bound.comparison]} %s", [selecting._stored(bound.values[0])]  # noqa: SLF001


@pytest.mark.parametrize(("name", "bug"), [("_begun", truncated), ("_compared", off_by_one)])
def test_a_planted_bug_is_noticed(
    log: sl.Log, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, name, bug)
    if name == "_begun":
        monkeypatch.setitem(selecting._FORMS, "prefix", bug)  # noqa: SLF001

    assert differences(log)


def test_a_rare_record_is_found_with_few_reads(new_url: Callable[[], str]) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("made", {"n": n}) for n in range(5_000)])
        log.append("orders", sl.Event("lost", {"n": 5_000}))
        before = log.metrics().reads

        with log.subscribe("orders", where="kind = 'lost'", read_ahead=100) as orders:
            record = orders.next(timeout_s=0)

            assert record is not None
            assert record.offset == 5_000
            assert orders.next(timeout_s=0) is None
            assert orders.assignment.position(0) == 5_001
        assert log.metrics().reads - before < 5


def test_what_is_evicted_or_beyond_the_end_is_read_as_ever(log: sl.Log) -> None:
    store: Any = parts_of(log).store
    topic = store.find_topic_id(log.topic("orders").id)
    bounds = [RecordBound("kind", "eq", ("no such",))]
    assert store.first_meeting(topic, 0, 5, bounds) == RECORDS
    assert store.first_meeting(topic, 0, RECORDS, bounds) == RECORDS

    log.trim("orders", 0, 100)

    assert store.first_meeting(topic, 0, 50, bounds) == 50
