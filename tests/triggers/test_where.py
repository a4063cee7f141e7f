"""Predicates of triggers: what does not match is acked as it passes."""

from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError, shredding
from strandline.subscriptions.redriving import dead_letters
from strandline.triggers import Counters, Triggers, redrive
from tests.triggers.calls import Calls, cursors, wait_until

ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.int64())])


def ids_of(record: sl.Record) -> list[int]:
    batch: pa.RecordBatch = record.value
    found: list[int] = batch.column("id").to_pylist()
    return found


@pytest.mark.slow
def test_events_are_picked_by_their_columns(log: sl.Log) -> None:
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="paid", where="kind = 'paid' AND headers['region'] = 'eu'")
    def paid(record: sl.Record) -> None:
        calls.note(record.payload)

    for number, (kind, region) in enumerate(
        [("paid", "eu"), ("created", "eu"), ("paid", "us"), ("paid", "eu"), ("created", "us")]
    ):
        event = sl.Event(kind, number, headers={"region": region})
        assert log.append("orders", event, partition=0).is_settled
    with triggers:
        wait_until(lambda: cursors(log, "paid")[0] == 5)

    assert calls.seen == [0, 3]
    assert triggers.metrics() == {"paid": Counters(handled=2, passed_over=3)}


@pytest.mark.slow
def test_events_are_picked_by_their_payloads(log: sl.Log) -> None:
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="large", where="payload.amount > 100 OR payload.urgent")
    def large(record: sl.Record) -> None:
        calls.note(record.payload["id"])

    for number, amount in enumerate([50, 150, "200", None]):
        event = sl.Event("order", {"id": number, "amount": amount, "urgent": amount is None})
        assert log.append("orders", event, partition=0).is_settled
    with triggers:
        wait_until(lambda: cursors(log, "large")[0] == 4)

    assert calls.seen == [1, 2, 3]


@pytest.mark.slow
def test_of_a_batch_the_function_gets_the_rows_that_match(log: sl.Log) -> None:
    seen: list[tuple[int, list[int]]] = []
    topic = log.scope().register("sales", ORDERS).topic
    triggers = Triggers(log)

    @triggers.on(topic, name="large", where="amount > 100")
    def large(record: sl.Record) -> None:
        seen.append((record.offset, ids_of(record)))

    for ids, amounts in ([1, 2, 3], [50, 200, 150]), ([4], [100]), ([5, 6], [101, None]):
        log.scope().publish(topic, pa.record_batch([ids, amounts], schema=ORDERS))
    with triggers:
        wait_until(lambda: log.cursor(topic, "large", 0) == 3)

    assert seen == [(0, [2, 3]), (2, [5])]
    assert triggers.metrics()["large"] == Counters(handled=2, passed_over=1)


def test_older_versions_are_read_as_the_newest(log: sl.Log) -> None:
    scope = log.scope()
    seen: list[object] = []
    topic = scope.register("sales", ORDERS).topic
    scope.publish(topic, pa.record_batch([[1], [500]], schema=ORDERS))
    newer = ORDERS.append(pa.field("region", pa.string()))
    scope.evolve(topic, newer)
    scope.publish(topic, pa.record_batch([[2], [600], ["eu"]], schema=newer))
    triggers = Triggers(log)
    triggers.on(topic, name="all", where="region IS NULL OR region = 'eu'")(
        lambda record: seen.extend(record.value.to_pylist())
    )

    with triggers:
        wait_until(lambda: log.cursor(topic, "all", 0) == 2)

    assert seen == [
        {"id": 1, "amount": 500, "region": None},
        {"id": 2, "amount": 600, "region": "eu"},
    ]


@pytest.mark.parametrize(
    ("topic", "where"),
    [("orders", "amount > 1"), ("orders", "kind ="), ("sales", "nothing > 1"), ("sales", "amount")],
)
def test_a_text_that_does_not_fit_is_refused_at_the_start(
    log: sl.Log, topic: str, where: str
) -> None:
    log.scope().register("sales", ORDERS)
    triggers = Triggers(log)
    triggers.on(topic, name="x", where=where)(print)

    with pytest.raises(PredicateError) as caught:
        triggers.start()

    assert caught.value.position is not None


def test_bytes_have_no_columns(log: sl.Log) -> None:
    log.create_topic("raw", value_kind=sl.ValueKind.BYTES)
    triggers = Triggers(log)
    triggers.on("raw", name="x", where="key = 'a'")(print)

    with pytest.raises(sl.InvalidError, match="no columns"):
        triggers.start()


@pytest.mark.slow
def test_a_row_that_makes_the_predicate_fail_is_dead_lettered_with_the_cause(log: sl.Log) -> None:
    calls = Calls()
    topic = log.scope().register("sales", ORDERS).topic
    triggers = Triggers(log)

    @triggers.on(topic, name="x", where="amount / id > 1", retry=[])
    def large(record: sl.Record) -> None:
        calls.note(record.offset)

    for number in (0, 1):
        log.scope().publish(topic, pa.record_batch([[number], [7]], schema=ORDERS))
    with triggers:
        wait_until(lambda: log.cursor(topic, "x", 0) == 2)

    assert calls.seen == [1]
    (letter,) = log.read("__strandline.dead_letters.sales", 0, 0)
    assert "row" in letter.headers["strandline.reason"]


@pytest.mark.slow
def test_a_dead_lettered_batch_is_redriven_as_its_matching_rows(log: sl.Log) -> None:
    seen: list[list[int]] = []
    topic = log.scope().register("sales", ORDERS).topic
    triggers = Triggers(log)

    @triggers.on(topic, name="x", where="amount > 1", retry=[])
    def large(record: sl.Record) -> None:
        seen.append(ids_of(record))
        if len(seen) == 1:
            raise ValueError("not yet")

    log.scope().publish(topic, pa.record_batch([[1, 2], [1, 2]], schema=ORDERS))
    with triggers:
        wait_until(lambda: triggers.metrics()["x"].dead_lettered == 1)
        redrive(log, topic)
        wait_until(lambda: triggers.metrics()["x"].handled == 1)

    assert seen == [[2], [2]]


@pytest.mark.slow
def test_triggers_of_one_process_share_what_they_read_and_evaluate(
    log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    parse = shredding._parsed  # noqa: SLF001

    def counted(decode: Any, texts: Any) -> Any:
        parsed.append(len(texts))
        return parse(decode, texts)

    monkeypatch.setattr(shredding, "_parsed", counted)
    calls, count, records = Calls(), 20, 400
    triggers = Triggers(log)
    for number in range(count):

        @triggers.on("orders", name=f"n{number}", where=f"payload.n = {number}")
        def note(record: sl.Record) -> None:
            calls.note(record.payload["n"])

    log.append_many("orders", [sl.Event("order", {"n": n}) for n in range(records)], partition=0)
    with triggers:
        wait_until(lambda: all(cursors(log, f"n{n}")[0] == records for n in range(count)))

    assert sorted(calls.seen) == [*range(count)]
    # A page may be read twice at once; what each trigger takes is evaluated by itself again.
    assert sum(parsed) < records * count / 2
    assert triggers.metrics()["n3"] == Counters(handled=1, passed_over=records - 1)


@pytest.mark.slow
def test_a_record_on_which_the_predicate_of_a_trigger_fails_is_dead_lettered(log: sl.Log) -> None:
    calls = Calls()
    triggers = Triggers(log)

    @triggers.on("orders", name="large", where="payload.n::INT > 5", retry=())
    def large(record: sl.Record) -> None:
        calls.note(record.payload["n"])

    for value in (1, "many", 9):
        log.append("orders", sl.Event("order", {"n": value}), partition=0)
    with triggers:
        wait_until(lambda: cursors(log, "large")[0] == 3)

    assert calls.seen == [9]
    assert [each.record_offset for each in dead_letters(log, "orders")] == [1]
