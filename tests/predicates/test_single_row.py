"""A single row is evaluated with Python values, and with the same result as in a batch."""

from collections.abc import Callable
from functools import partial
from operator import lt
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError, event_columns, parse_predicate, single_row
from strandline.subscriptions.screening import EventScreen, sift_together
from tests.predicates.generated import Generator

PREDICATES = 200
ROWS = 40
CHOSEN = (
    "payload.n > 1", "payload.n <= 1", "payload.mix = '1.5'", "payload.mix > 1", "payload.f",
    "payload.n IS NULL", "payload.s IN ('5', 'a')", "payload.n::INT > 1", "payload.at > ts",
    "payload.l[0] = 1", "payload.o.d.e >= 5", "payload.o = '{\"c\":\"DE\",\"d\":{\"e\":5}}'",
    "payload.n IN (1, 2.5, NULL)", "payload.n::DECIMAL(10,1) = 1.5", "startswith(payload.s, 'a')",
    "d >= 1e0", "d > 1e0 OR d < 0e0", "NOT d = 1e0", "d IN (0e0, 1e0)", "d <> 5e0", "f > 0.1",
    "s > 'a' AND s <= 'b'", "s IN ('a', NULL)", "contains(s, 'b')", "endswith(s, 'a')", "b",
    "NOT b", "b IS TRUE OR c IS NULL", "b AND c", "b OR c", "m > 1.5", "i32 > j32", "i8 < i64",
    "i32 <=> 5", "h['x'] = '5'", "h['x'] IS NULL", "ts > TIMESTAMP '2000-01-01 00:00:00'",
    "i32 > 1e0", "s LIKE 'a%'", "s LIKE '%a'", "s LIKE '%b%'", "s LIKE 'a'", "s LIKE ''",
    "s NOT LIKE 'a%' OR s IS NULL", "payload.s LIKE 'a%'",
    "day <= DATE '1970-01-01'", "u8 > 5", "i64 BETWEEN -5 AND 5", "i32 = 5 OR NULL",
)  # fmt: skip


def differences(seed: int, generated: int) -> tuple[int, list[str]]:
    """Return how many predicates judge single rows, and where that differs."""
    generator = Generator(seed)
    batch = generator.table(ROWS).combine_chunks().to_batches()[0]
    texts = [*CHOSEN, *(generator.predicate() for _ in range(generated))]
    tried, found = 0, []
    for text in texts:
        try:
            predicate = parse_predicate(text, batch.schema)
        except PredicateError:
            continue
        test = predicate.row_test
        if test is None or not predicate.columns:
            continue
        tried += 1
        rows = [batch.slice(at, 1) for at in range(ROWS)]
        expected = [answer(partial(kernels, predicate), row) for row in rows]
        seen = [answer(test.matches_batch, row) for row in rows]
        if expected != seen:
            found.append(text)
    return tried, found


def kernels(predicate: Any, row: pa.RecordBatch) -> Any:
    evaluation = predicate._evaluation  # noqa: SLF001
    return evaluation._program.run(row)[0][0].as_py()  # noqa: SLF001


def answer(judged: Callable[[pa.RecordBatch], Any], row: pa.RecordBatch) -> Any:
    try:
        return judged(row)
    except pa.ArrowInvalid:
        return "fails"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 19])
def test_a_row_is_judged_by_itself_as_by_kernels(seed: int) -> None:
    tried, found = differences(seed, PREDICATES)

    assert not found
    assert tried > len(CHOSEN)


def no_nan(self: Any, node: Any) -> Any:
    left, right = map(self._compiled, node.inputs)
    test = single_row._COMPARE[node.op]  # noqa: SLF001
    return lambda row: None if None in (left(row), right(row)) else test(left(row), right(row))


BUGS = [
    (single_row, "_COMPARE", {**single_row._COMPARE, "le": lt}),  # noqa: SLF001
    (single_row.RowTest, "_comparison", no_nan),
    (
        single_row,
        "typed_one",
        lambda value, *_, **__: value if type(value) in {int, float} else None,
    ),
    (single_row, "_TEXT", dict.fromkeys(single_row._TEXT, str.__ne__)),  # noqa: SLF001
    (single_row, "_LIKE", dict.fromkeys(single_row._LIKE, str.__ne__)),  # noqa: SLF001
    (single_row, "_moment", lambda column: column[0].value or 0),
]


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[1])
def test_a_planted_bug_is_noticed(
    bug: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*bug)

    assert differences(3, 0)[1]


def test_an_event_by_itself_is_judged_without_a_batch() -> None:
    event = sl.Event("paid", {"amount": 150, "to": {"city": "Köln"}}, key="a", headers={"x": "5"})
    log = sl.open("memory:")
    log.create_topic("orders")
    log.append("orders", event)
    (record,) = log.read("orders", 0, 0)

    for text, expected in (
        ("payload.amount > 100 AND payload.to.city = 'Köln'", True),
        ("kind = 'paid' AND key = 'a' AND headers['x'] = '5'", True),
        ("headers['y'] IS NULL AND timestamp > TIMESTAMP '2020-01-01 00:00:00'", True),
        ("payload.amount < 100 OR occurred_at IS NULL AND key IS NULL", False),
        ("payload.amount % 100 = 50 AND upper(kind) = 'PAID'", True),
    ):
        screen = EventScreen(text, 0)
        assert list(screen.sift([record])) == [record if expected else None]
        assert list(screen.sift([record, record])) == [record if expected else None] * 2


def test_several_predicates_judge_an_event_by_itself_as_among_others() -> None:
    log = sl.open("memory:")
    log.create_topic("orders")
    log.append("orders", sl.Event("paid", {"amount": 150}, key="customer-1"))
    (record,) = log.read("orders", 0, 0)
    wanted, unwanted, unknown = screens = [
        EventScreen(text, 0)
        for text in ("key LIKE 'customer-%'", "payload.amount < 100", "occurred_at > current_date")
    ]

    assert sift_together(screens, [record]) == {wanted: [0], unwanted: [], unknown: []}
    assert sift_together(screens, [record] * 2) == {wanted: [0, 1], unwanted: [], unknown: []}


@pytest.mark.parametrize("digits", [40, 310, 900])
def test_a_number_beyond_all_doubles_is_infinite(digits: int) -> None:
    schema = pa.schema([event_columns().field("payload")])
    written = ['{"a":1' + "0" * digits + "}", '{"a":-1' + "0" * digits + "}", '{"a":1e999}']
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(written))
    batch = pa.RecordBatch.from_arrays([texts], schema=schema)
    large = parse_predicate("payload.a > 1e39", schema)

    assert large.matches(batch).to_pylist() == [True, False, True]
    assert [large.matches(batch.slice(at, 1))[0].as_py() for at in range(3)] == [True, False, True]
    assert parse_predicate("payload.a = 'Infinity'", schema).matches(batch)[2].as_py()


def test_a_number_of_more_digits_than_spark_reads_is_null() -> None:
    schema = pa.schema([event_columns().field("payload")])
    texts = pa.array(['{"a":1' + "0" * 1100 + "}", '{"a":5}'])
    batch = pa.RecordBatch.from_arrays(
        [pa.ExtensionArray.from_storage(pa.json_(), texts)], schema=schema
    )

    for text in ("payload.a IS NULL", "NOT payload.a > 1 OR payload.a IS NULL"):
        assert parse_predicate(text, schema).matches(batch).to_pylist() == [True, False]
        assert parse_predicate(text, schema).matches(batch.slice(0, 1))[0].as_py()
