"""Dead letters picked by a predicate on their records."""

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError, PredicateEvalError
from strandline.subscriptions.redriving import dead_letters, redrive


def dead_lettered(log: sl.Log, topic: str) -> None:
    with log.consumer(topic, "billing", deliveries_max=1) as billing:
        while (delivery := billing.next(timeout_s=0)) is not None:
            billing.nack(delivery, reason="no")


@pytest.fixture
def log() -> sl.Log:
    made = sl.open("memory:")
    made.create_topic("orders")
    for amount, region in ((5, "eu"), (100, "us"), ("many", "eu"), (300, "eu")):
        made.append("orders", sl.Event("order", {"amount": amount}, headers={"region": region}))
    dead_lettered(made, "orders")
    return made


@pytest.mark.parametrize(
    "where",
    [
        "",
        "payload.amount >= 100",
        "headers['region'] = 'eu'",
        "headers['strandline.reason'] = 'no'",
    ],
)
def test_the_text_picks_what_a_subscription_would_get(log: sl.Log, where: str) -> None:
    with log.subscribe("orders", where=where) as orders:
        expected = []
        while (record := orders.next(timeout_s=0)) is not None:
            expected.append(record.offset)

    assert [each.record_offset for each in dead_letters(log, "orders", where=where)] == expected
    assert [each.record_offset for each in redrive(log, "orders", where=where)] == expected
    assert not redrive(log, "orders", where=where)


def test_a_dead_letter_whose_record_was_trimmed_is_picked_all_the_same(log: sl.Log) -> None:
    log.trim("orders", 0, 4, force=True)

    assert [each.offset for each in redrive(log, "orders", where="payload.amount >= 100")] == [1, 3]


def test_nothing_is_redriven_if_the_predicate_fails_or_does_not_fit(log: sl.Log) -> None:
    with pytest.raises(PredicateEvalError):
        redrive(log, "orders", where="payload.amount::INT >= 100")
    with pytest.raises(PredicateError):
        redrive(log, "orders", where="amount >= 100")

    assert not any(each.is_redriven for each in dead_letters(log, "orders"))


def test_a_batch_is_picked_if_one_of_its_rows_matches() -> None:
    log = sl.open("memory:")
    log.create_topic("sales", value_kind=sl.ValueKind.BATCH)
    for amounts in ([1, 200], [2, 3]):
        log.append("sales", pa.record_batch({"amount": amounts}))
    dead_lettered(log, "sales")

    assert [each.record_offset for each in redrive(log, "sales", where="amount > 100")] == [0]
