"""Subscriptions with predicates on one topic: each record read, parsed and judged once."""

from collections.abc import Iterator
from typing import Any

import pytest

import strandline as sl
from strandline.predicates import PredicateEvalError, shredding
from strandline.subscriptions import sharing

RECORDS = 300


@pytest.fixture
def log() -> Iterator[sl.Log]:
    with sl.open("memory:") as opened:
        opened.create_topic("orders")
        opened.append_many(
            "orders", [sl.Event("order", {"n": number}) for number in range(RECORDS)]
        )
        yield opened


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many payloads each parse was for."""
    found: list[int] = []
    parse = shredding._parsed  # noqa: SLF001

    def counted(decode: Any, texts: Any) -> Any:
        found.append(len(texts))
        return parse(decode, texts)

    monkeypatch.setattr(shredding, "_parsed", counted)
    return found


def taken(subscription: sl.Subscription[Any]) -> list[int]:
    found = []
    while (record := subscription.next(timeout_s=0)) is not None:
        found.append(record.payload["n"])
    return found


def test_a_payload_is_parsed_once_for_all_subscriptions_at_a_place(
    log: sl.Log, parsed: list[int]
) -> None:
    subscriptions = [log.subscribe("orders", where=f"payload.n % 8 = {n}") for n in range(8)]

    found = [taken(each) for each in subscriptions]

    assert found == [[*range(n, RECORDS, 8)] for n in range(8)]
    assert sum(parsed) == RECORDS


def test_the_records_of_one_subscription_are_not_those_of_another(log: sl.Log) -> None:
    first, second = (log.subscribe("orders", where="payload.n < 3") for _ in range(2))

    changed = next(first)
    changed.payload["n"] = "changed"

    assert taken(second) == [0, 1, 2]
    assert taken(first) == [1, 2]


def test_live_records_come_to_each_of_them(log: sl.Log) -> None:
    subscriptions = [log.subscribe("orders", where=f"payload.n = {n}") for n in (1000, 1001)]
    assert [taken(each) for each in subscriptions] == [[], []]

    for number in (1000, 1001, 1000):
        log.append("orders", sl.Event("order", {"n": number}))

    assert [taken(each) for each in subscriptions] == [[1000, 1000], [1001]]


def test_a_predicate_that_fails_stops_only_its_own_subscription(log: sl.Log) -> None:
    log.append("orders", sl.Event("order", {"n": "x"}))
    log.append("orders", sl.Event("order", {"n": 7}))
    strict = log.subscribe("orders", where="payload.n::INT = 7")
    others = log.subscribe("orders", where="payload.n = 7")

    assert taken(others) == [7, 7]
    assert next(strict).payload == {"n": 7}
    for _ in range(2):
        with pytest.raises(PredicateEvalError):
            strict.next(timeout_s=0)
    assert strict.assignment.position(0) == RECORDS


def test_a_subscription_that_joins_later_starts_where_it_wants(log: sl.Log) -> None:
    early = [log.subscribe("orders", where=f"payload.n = {n}") for n in (1, 2)]
    assert [taken(each) for each in early] == [[1], [2]]

    late = log.subscribe("orders", start=1, where="payload.n < 4")

    assert taken(late) == [1, 2, 3]


def test_one_subscription_alone_keeps_no_page(log: sl.Log) -> None:
    assert taken(log.subscribe("orders", where="payload.n = 1")) == [1]

    assert not sharing.shared_reads(log)._pages  # noqa: SLF001 - That nothing is kept.


@pytest.mark.parametrize("read_ahead", [1, 7, 1024])
def test_each_continues_within_a_page_that_holds_more_than_it_may(
    log: sl.Log, read_ahead: int, parsed: list[int]
) -> None:
    texts = ("payload.n % 2 = 0", "payload.n >= 0", "payload.n = 299")
    all_of = [log.subscribe("orders", where=each, read_ahead=read_ahead) for each in texts]

    found = [taken(each) for each in all_of]

    assert found == [[*range(0, RECORDS, 2)], [*range(RECORDS)], [299]]
    assert sum(parsed) == RECORDS
    assert [each.assignment.position(0) for each in all_of] == [RECORDS] * 3


def test_a_single_record_comes_to_those_that_want_it(log: sl.Log) -> None:
    wheres = ("payload.n >= 1000", "payload.n < 0", "payload.n = 1001")
    subscriptions = [log.subscribe("orders", where=each, start="latest") for each in wheres]
    log.append("orders", sl.Event("order", {"n": 1000}))
    assert [taken(each) for each in subscriptions] == [[1000], [], []]

    log.append("orders", sl.Event("order", {"n": 1001}))
    assert [taken(each) for each in subscriptions] == [[1001], [], [1001]]
