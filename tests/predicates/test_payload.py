"""Paths into payloads: the values found, the types compared, and the cost."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from strandline.predicates import (
    EVENT_COLUMNS,
    PredicateError,
    PredicateEvalError,
    UnsupportedPredicateError,
    matches_each,
    parse_predicate,
    shredding,
)

SCHEMA = pa.schema([EVENT_COLUMNS.field("payload")])
PAYLOADS = (
    {"amount": 150, "customer": {"country": "DE"}, "items": [{"sku": "a"}], "ok": True},
    {"amount": "150", "customer": {"country": "FR"}, "items": [], "ok": "yes", "order": 1},
    {
        "amount": 99.5,
        "customer": {},
        "items": [{"sku": None}],
        "a b": 1,
        "at": "2026-01-31T12:00:00Z",
    },
    {"amount": None, "customer": "DE", "items": {"sku": 1}, "id": 2**60 + 1},
    {"Amount": 500, "amount": {"eur": 1}, "note": "it's"},
    [1, {"amount": 7}],
    None,
    5,
)


def batch(*texts: str) -> pa.RecordBatch:
    storage = pa.array(texts, pa.string())
    column = pa.ExtensionArray.from_storage(pa.json_(), storage)
    return pa.RecordBatch.from_arrays([column], schema=SCHEMA)


def rows(text: str, payloads: Sequence[Any] = PAYLOADS) -> list[int]:
    found = parse_predicate(text, SCHEMA).matches(batch(*map(json.dumps, payloads)))
    return [number for number, is_match in enumerate(found.to_pylist()) if is_match]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payload.amount > 100", [0, 1]),
        ("payload.amount > 99", [0, 1, 2]),
        ("NOT payload.amount > 100", [2]),
        ("payload.amount IS NULL", [3, 5, 6, 7]),
        ("(payload.amount > 1) IS NULL", [3, 4, 5, 6, 7]),
        ("payload.Amount = 500", [4]),
        ("PAYLOAD.amount = 150", [0, 1]),
        ("payload.customer.country = 'DE'", [0]),
        ("payload.customer = 'DE'", [3]),
        ("payload.items[0].sku IS NOT NULL", [0]),
        ("payload.items[1] IS NULL", list(range(8))),
        ("payload.items.sku = 1", [3]),
        ("payload[1].amount = 7", [5]),
        ("payload[0] = 1", [5]),
        ("payload = 5", [7]),
        ("payload IS NULL", [6]),
        ("payload.`a b` = 1", [2]),
        ("payload['a b'] = 1", [2]),
        ("payload.order = 1", [1]),
        ("payload.ok", [0, 1]),
        ("payload.ok = TRUE", [0, 1]),
        ("payload.amount IN (150, 99.5)", [0, 1, 2]),
        ("payload.amount BETWEEN 99 AND 100", [2]),
        ("lower(payload.customer.country) LIKE 'd%'", [0]),
        ("payload.amount * 2 = 300", [0, 1]),
        ("payload.amount + payload.order > 1", [1]),
        ("payload.amount % 2 = 0", [0, 1]),
        ("payload.at > TIMESTAMP '2026-01-31 11:00:00'", [2]),
        ("payload.at::DATE = '2026-01-31'", [2]),
        ("payload.id::BIGINT = 1152921504606846977", [3]),
        ("payload.id::BIGINT = 1152921504606846976", []),
        ("TRY_CAST(payload.amount AS INT) = 99", [2]),
        ("payload.note = 'it\\'s'", [4]),
        ('payload.customer::STRING = \'{"country":"DE"}\'', [0]),
        ("coalesce(payload.amount, 0) = 0", [3, 4, 5, 6, 7]),
        ("CASE WHEN payload.ok THEN payload.amount ELSE 0 END = 150", [0, 1]),
        ("payload.amount IS NOT DISTINCT FROM 150", [0, 1]),
    ],
)
def test_rows_that_match(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [
        ("payload.a = payload.b", 0, "payload.a::DOUBLE"),
        ("payload.id = 1152921504606846977", 13, "payload.id::BIGINT"),
        ("payload.a BETWEEN 1 AND 'x'", 0, "payload.a::STRING"),
        ("payload.a[-1] = 1", 10, "for a position"),
        ("payload.a[b] = 1", 10, "whole number"),
        ("payload.`a?` = 1", 0, "question mark"),
        ("payload.a IN (payload.b)", 0, "use OR"),
        ("payload:a = 1", 7, "payload.a.b"),
        ("payload.a -> 'b' = 1", 10, "payload.a.b"),
        ("json_extract(payload, 'a') = 1", 0, "write payload.a.b"),
        ("lenght(payload.a) = 1", 0, "the nearest is length"),
        ("payload.a DIV 2 = 1", 10, "CAST"),
        ("payload.a = INTERVAL 1 DAY", 12, "added to"),
        ("payload." + ".".join("a" * 17) + " = 1", 0, "16 steps"),
    ],
)
def test_what_is_refused_says_what_to_write(text: str, position: int, hint: str) -> None:
    with pytest.raises(UnsupportedPredicateError, match=hint) as caught:
        parse_predicate(text, SCHEMA)

    assert caught.value.position == position


def test_a_topic_without_payloads_says_what_it_has() -> None:
    schema = pa.schema({"id": pa.int32(), "amount": pa.int32()})

    with pytest.raises(PredicateError, match="columns instead of payloads: id, amount") as caught:
        parse_predicate("id = 1 AND payload.amount > 1", schema)

    assert caught.value.position == 11


def test_an_explicit_cast_fails_on_the_row_that_does_not_fit() -> None:
    with pytest.raises(PredicateEvalError) as caught:
        rows("payload.amount::INT > 1")

    assert caught.value.row == 4
    assert rows("payload.amount::INT > 1", PAYLOADS[:4]) == [0, 1, 2]


def test_text_that_is_no_json_is_null() -> None:
    found = parse_predicate("payload.a = 1", SCHEMA).matches(batch('{"a":1}', "{", ""))

    assert found.to_pylist() == [True, False, False]


class Counting:
    """Counts the payloads that are parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed = 0
        parsed = shredding._parsed  # noqa: SLF001

        def counted(decode: Any, texts: Any) -> Any:
            self.parsed += len(texts)
            return parsed(decode, texts)

        monkeypatch.setattr(shredding, "_parsed", counted)


@pytest.mark.slow
def test_a_payload_is_parsed_once_for_all_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    texts = [f"payload.amount > {n} AND payload.customer.country = 'DE'" for n in range(100)]
    predicates = [parse_predicate(text, SCHEMA) for text in texts]

    found = matches_each(predicates, batch(*map(json.dumps, PAYLOADS)))

    assert counting.parsed == len(PAYLOADS)
    assert all(mask.to_pylist()[0] for mask in found)


def test_a_predicate_that_looks_into_no_payload_parses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting = Counting(monkeypatch)
    predicate = parse_predicate("kind = 'a' AND key IS NULL", EVENT_COLUMNS)

    assert "payload" not in predicate.columns
    assert counting.parsed == 0


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "payload.a.b[0].c > 100",
            "try_variant_get(try_parse_json(`payload`), '$.a.b[0].c', 'DOUBLE') > 100",
        ),
        (
            "payload['a b']::INT = 1 -- one",
            "variant_get(try_parse_json(`payload`), '$[\"a b\"]', 'INT')::INT = 1 -- one\n",
        ),
        ("timestamp > '2026-01-01'", "_timestamp > '2026-01-01'"),
        ("kind = 'timestamp'", "kind = 'timestamp'"),
        ("`timestamp` = now()", "_timestamp = TIMESTAMP '1970-01-01 00:00:00.000001Z'"),
        ("occurred_at > current_date", "occurred_at > DATE '1970-01-01'"),
        ("payload IS NULL", "try_variant_get(try_parse_json(`payload`), '$', 'STRING') IS NULL"),
    ],
)
def test_a_predicate_is_written_for_spark(text: str, written: str) -> None:
    assert parse_predicate(text, EVENT_COLUMNS, now_us=1).spark_sql == written


def test_a_date_that_may_fail_is_not_compared_with_a_time() -> None:
    """Spark knows without a look at it that no date is noon."""
    with pytest.raises(UnsupportedPredicateError):
        parse_predicate("to_timestamp('2020-02-29T12:34:56Z') = payload.at::DATE", EVENT_COLUMNS)
