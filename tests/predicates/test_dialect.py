"""What parses, what does not and why, and which rows match."""

import math
import pickle
import string
from decimal import Decimal
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
)
from strandline.predicates.dialect import (
    DEPTH_MAX,
    NESTING_MAX,
    PATTERN_CHARS_MAX,
    PATTERN_WILDCARDS_MAX,
    TEXT_CHARS_MAX,
    TOKENS_MAX,
)
from strandline.values import InvalidError

NAN = math.nan

BATCH = pa.record_batch(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "n": pa.array([None, 0, 2**31 - 1, -5], pa.int32()),
        "x": pa.array([NAN, -0.0, None, 1.5]),
        "y": pa.array([NAN, 0.0, 1.0, 2.0]),
        "m": pa.array([Decimal("1.50"), None, Decimal("-0.25"), Decimal("9.99")]),
        "s": pa.array(["5", "a_b%", None, "ß"]),
        "ok": pa.array([True, None, False, True]),
        "at": pa.array([0, 1, None, -1], pa.timestamp("us", tz="UTC")),
        "raw": pa.array([b"", None, b"x", b"y"]),
        "Ünder score": pa.array([1, 2, 3, None]),
        "tags": pa.array(
            [[("a", "1")], [], None, [("a", None)]], pa.map_(pa.string(), pa.string())
        ),
    }
)


def rows(text: str, batch: pa.RecordBatch = BATCH) -> list[int]:
    found = parse_predicate(text, batch.schema).matches(batch)
    assert found.null_count == 0
    return [number for number, is_match in enumerate(found.to_pylist()) if is_match]


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_blank_text_matches_all(text: str) -> None:
    """C27."""
    assert rows(text) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # C28: columns, literals, comparisons, logic.
        ("id > 2", [2, 3]),
        ("ID = 1 OR `Ünder Score` = 2", [0, 1]),
        ("2 < id", [2, 3]),
        ("NOT id = 1 AND id <> 2 AND id != 3", [3]),
        ("id = 1 OR id = 2 AND id = 3", [0]),
        ("ok", [0, 3]),
        ("NOT ok", [2]),
        ("id BETWEEN 2 AND 3", [1, 2]),
        ("id NOT BETWEEN 2 AND 3", [0, 3]),
        ("id IN (1, 4, 9)", [0, 3]),
        ("id NOT IN (1, 4)", [1, 2]),
        # C30: NULL does not match, and neither does its negation.
        ("n > 0", [2]),
        ("NOT n > 0", [1, 3]),
        ("n = NULL", []),
        ("n <=> NULL", [0]),
        ("n IS NULL", [0]),
        ("n IS NOT NULL", [1, 2, 3]),
        ("n IS DISTINCT FROM 0", [0, 2, 3]),
        ("n IS NOT DISTINCT FROM 0", [1]),
        ("n NOT IN (0, NULL)", []),
        ("n IN (0, NULL)", [1]),
        ("ok IS UNKNOWN", [1]),
        ("ok IS NOT TRUE", [1, 2]),
        ("ok IS FALSE", [2]),
        ("ok AND n > 0 OR id = 1", [0]),
        ("TRUE", [0, 1, 2, 3]),
        ("1 = 1", [0, 1, 2, 3]),
        ("FALSE", []),
        ("CAST(NULL AS BOOLEAN)", []),
        ("ok OR NULL", [0, 3]),
        ("raw IS NULL", [1]),
        # NaN is one value, above all others; there is one zero.
        ("x = x", [0, 1, 3]),
        ("x = y", [0, 1]),
        ("x > 1e300", [0]),
        ("x >= y", [0, 1]),
        ("x < y", [3]),
        ("x <> y", [3]),
        ("x = 0", [1]),
        ("x IN (0e0, 7e0)", [1]),
        ("x IN (-0e0, 7e0)", [1]),
        ("x = CAST('NaN' AS DOUBLE)", [0]),
        ("x <= 1.5", [1, 3]),
        ("NOT x > 1", [1]),
        # Numbers meet in the wider type.
        ("m = 1.5", [0]),
        ("m > x", [3]),
        ("m + 1 > 2.4", [0, 3]),
        ("m * m = 2.25", [0]),
        ("-m > 0", [2]),
        ("id / 2 = 0.5", [0]),
        ("id % 2 = 1", [0, 2]),
        ("-7 % 4 = -3", [0, 1, 2, 3]),
        ("id = '3'", [2]),
        ("id < 3000000000", [0, 1, 2, 3]),
        # Text.
        ("s LIKE 'a%'", [1]),
        ("s LIKE 'a_b_'", [1]),
        ("s LIKE 'a\\_b\\%'", [1]),
        ("s LIKE 'a/_b/%' ESCAPE '/'", [1]),
        ("s LIKE 'a/_/_%' ESCAPE '/'", []),
        ("s NOT LIKE '_'", [1]),
        ("s LIKE '%'", [0, 1, 3]),
        ("s LIKE '%b%'", [1]),
        ("upper(s) = 'SS'", [3]),
        ("length(s) = 1", [0, 3]),
        ("lower('ÄB') = 'äb'", [0, 1, 2, 3]),
        ("startswith(s, 'a') OR endswith(s, '5')", [0, 1]),
        ("s > 'a'", [1, 3]),
        ("tags['a'] = '1'", [0]),
        ("tags['a'] IS NULL", [1, 2, 3]),
        # Casts.
        ("CAST(id AS STRING) = '2'", [1]),
        ("TRY_CAST(s AS INT) = 5", [0]),
        ("CAST(x AS FLOAT) = CAST(1 AS FLOAT)", []),
        ("TRY_CAST(x AS TINYINT) = 1", [3]),
        ("CAST(m AS INT) = 0", [2]),
        ("CAST(m AS DECIMAL(4,1)) = -0.3", [2]),
        ("CAST(ok AS INT) = 1", [0, 3]),
        ("CAST(n AS BOOLEAN)", [2, 3]),
        # Moments.
        ("at >= TIMESTAMP '1970-01-01 00:00:00'", [0, 1]),
        ("at = '1970-01-01T01:00:00+01:00'", [0]),
        ("at < DATE '1970-01-01'", [3]),
        ("CAST(at AS DATE) = '1969-12-31'", [3]),
        # A constant divisor other than zero cannot fail, wherever it stands.
        ("id % 2 = 0 AND s = 'a_b%'", [1]),
        ("id % 2 = 0 OR ok", [0, 1, 3]),
        ("n / 2 > 0 OR id = 1", [0, 2]),
        ("n % -1 IS NULL", [0]),
        ("id % 3 IN (0, 1) AND ok", [0, 3]),
        # Of two changes of case in each other the outer one is left, except of constants.
        ("lower(upper(s)) = 'ß'", [3]),
        ("upper(lower(upper(s))) = 'SS'", [3]),
        ("lower(upper('ß')) = 'ss'", [0, 1, 2, 3]),
        ("s = '5' AND lower(upper(s)) = '5'", [0]),
        # IS UNKNOWN.
        ("n IS UNKNOWN", [0]),
        ("(n > 0) IS NOT UNKNOWN", [1, 2, 3]),
        ("NULL IS UNKNOWN", [0, 1, 2, 3]),
        # A part that fails sees only the rows that the parts before it leave.
        ("id <> 3 AND n + 1 < 5", [1, 3]),
        ("n <> 0 AND 10 / n < 0", [3]),
    ],
)  # fmt: skip
def test_rows_that_match(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize("sign", [*string.punctuation, "--", "/*", "*/", "<=>", "||", "::"])
def test_no_sign_means_anything_in_quotes(sign: str) -> None:
    written = {"\\": "\\\\", "'": "\\'", '"': '\\"'}.get(sign, sign)
    batch = pa.record_batch(
        {
            "s": pa.array([sign, "x", None]),
            "tags": pa.array([[(sign, "1")], [], None], pa.map_(pa.string(), pa.string())),
        }
    )

    for quote in ("'", '"'):
        text = f"{quote}{written}{quote}"
        assert rows(f"s = {text}", batch) == rows(f"{text} = s", batch) == [0]
        assert rows(f"s IN ({text}, 'y')", batch) == [0]
        assert rows(f"startswith(s, {text}) AND NOT s <> {text}", batch) == [0]
        assert rows(f"tags[{text}] = '1'", batch) == [0]
        if len(sign) == 1 and sign not in "%_":
            assert rows(f"s LIKE 'x{written}%' ESCAPE {text}", batch) == []
            assert rows(f"s LIKE '{written}{written}' ESCAPE {text}", batch) == [0]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("(((", 2),
        ("id >", 3),
        ("id > 1)", 6),
        ("id = 'x", 6),
        ("id id", 3),
        ("ok AND idd = 1", 7),
        ("id IN ()", 0),
        # WC10: the type of the result is known when it is parsed.
        ("id + 1", 0),
        ("NULL", 0),
        ("s", 0),
        ("ok AND id", 7),
        ("ok = 1", 0),
        ("lower(id) = 'a'", 6),
        ("id LIKE '1'", 0),
        ("s LIKE 'a\\\\'", 7),
        ("s LIKE 'a\\\\b'", 7),
        ("id > 1 AND 1 / 0 = 1", 11),
        ("id = 'x'", 5),
        ("1e999 > x", 0),
        ("id IS TRUE", 0),
        ("lower() = ''", 0),
    ],
)
def test_what_is_wrong_is_reported_with_its_position(text: str, position: int) -> None:
    """TC10 and WC10: a syntax error, an unknown column, types without a common type (C29)."""
    with pytest.raises(PredicateError) as caught:
        parse_predicate(text, BATCH.schema)

    assert type(caught.value) is PredicateError
    assert caught.value.position == position
    assert f"position={caught.value.position}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "SUM(id) > 0",
        "count(*) > 1",
        "row_number() OVER (ORDER BY id) = 1",
        "id IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "(SELECT 1) = id",
        "starts_with(s, 'a')",
        "char_length(s) = 1",
        "int(id) = 1",
        # WC10: placeholders.
        "id = ?",
        "id = :id",
        "id = {id}",
        "id = $1",
        "id = @id",
        "id AS x",
        "1L = id",
        "1::INT = id",
        "CAST(x AS STRING)::INT = 1",
        "s || 'a' & 'b' = 'c'",
        "id + 1 || s = 'a'",
        "id & 1 | 2 = 1",
        "s RLIKE s",
        "s RLIKE '(?i)a'",
        "s RLIKE '(a)\\\\1'",
        "s RLIKE 'a(?=b)'",
        "s RLIKE '\\\\bword'",
        "s RLIKE 'a++'",
        "s RLIKE '\\\\p{L}'",
        "s RLIKE '[a&&b]'",
        "s RLIKE '(a{50}){50}'",
        "s RLIKE '\\\\s$'",
        "s LIKE ANY ('a') ESCAPE '!'",
        "round(x, -1) = 1",
        "date_trunc('eon', at) = at",
        "extract(EPOCH FROM at) = 1",
        "to_date(s, 'yyyy') = at",
        "at + INTERVAL 1.5 SECOND > at",
        "at + INTERVAL 1 DAY 2 HOURS > at",
        "id = 1 -- a comment \\\n",
        "id.a[ok] = 1",
        "id.1a = 1",
        "size(tags)[0] = 1",
        "`lower`(s) = 'a'",
        "x::STRING = '1'",
        "s SIMILAR TO 'a'",
        "s LIKE s",
        "id DIV 2 = 1",
        "id = 1; id = 2",
        "s = 'it''s'",
        "s = 'a' 'b'",
        "s = r'a'",
        "s = '\\x'",
        "s = X'41'",
        "raw = s",
        "tags = NULL",
        "tags[s] = 'a'",
        "at > '2020'",
        "at > s",
        "CAST(x AS STRING) = '1'",
        "CAST(id AS VARCHAR(3)) = '1'",
        "CAST(id AS ARRAY<INT>) IS NULL",
        "INTERVAL 1 DAY IS NULL",
        # The two readings of these differ between parsers, or they read badly.
        "id = 1 IS NULL",
        "id = 1 = ok",
        "id < n < 3",
        "ok = NOT ok",
        "+id = 1",
        # Engines may differ on which rows reach what fails.
        "n + 1 > 5 AND id = 1",
        "id = 1 OR n + 1 > 5",
        "x IS NOT NULL AND n + 1 > 5",
        "n + 1 IS NULL",
        "n + 1 = 0.5",
        "n + 1 = n + 1",
        "1 + n + 2 > 0",
        "id = n AND n + 1 > 0",
        "n = 0 AND 1 / n > 0",
        "n IN (0) AND 1 / n > 0",
        "NOT n <> 0 AND 1 / n > 0",
        "n <=> 0 AND 1 / n > 0",
        "n + 1 > NULL",
        "n + 1 > 0 AND id = NULL",
        "n + 1 > 0 AND n NOT IN (1, 2, NULL)",
        "NOT (n = 1 OR n IN (2, NULL)) AND n + 1 > 0",
        "TRY_CAST(s AS INT) = 5 AND n + 1 > 0",
        "(ok OR s = 'a') AND n + 1 > 0",
        "concat(s, 'a') = 'aa' AND n + 1 > 0",
        "CASE WHEN ok THEN TRUE END AND n + 1 > 0",
        "n + 1 > 0 AND FALSE",
        "FALSE AND CAST(3000000000 AS INT) = 1",
        "NOT (1 > 2 AND (ok OR 1 / 0 = 1))",
        "1 / 0 = 1 OR TRUE",
        "id % 0 = 1 OR ok",
        "id % n = 1 OR ok",
        # Spark computes one side with the column, and the other with its value.
        "s = 'ß' AND lower(upper(s)) = 'ss'",
        "lower(upper(s)) = 'ss' AND s <=> 'ß'",
        # Spark takes some constants here and refuses others.
        "5 IS UNKNOWN",
        "'a' IS NOT UNKNOWN",
        "CAST(1 AS BIGINT) IS UNKNOWN",
        "DATE '2020-01-01' IS UNKNOWN",
        "ok = UNKNOWN",
        "id IN (UNKNOWN)",
    ],
)
def test_forms_outside_the_dialect_are_refused(text: str) -> None:
    """TC10 and C29: aggregates, windows, sub-queries, CASE, placeholders, other functions."""
    with pytest.raises(UnsupportedPredicateError):
        parse_predicate(text, BATCH.schema)


@pytest.mark.parametrize(
    "text",
    [
        "id = 1 " + "OR id = 1 " * TEXT_CHARS_MAX,
        "id IN (" + ", ".join(["1"] * TOKENS_MAX) + ")",
        "(" * NESTING_MAX + "ok" + ")" * NESTING_MAX,
        "NOT " * (NESTING_MAX + 1) + "ok",
        "id = " + " - ".join(["-"] * (NESTING_MAX + 1)) + " id",
        "id = " + " + ".join(["id"] * DEPTH_MAX),
        f"s LIKE '{'a' * PATTERN_CHARS_MAX}b'",
        "s LIKE '" + "%a" * PATTERN_WILDCARDS_MAX + "%'",
    ],
)
def test_size_depth_and_patterns_are_bounded(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_predicate(text, BATCH.schema)


def test_a_long_chain_is_not_deep() -> None:
    assert rows(" OR ".join(f"id = {number}" for number in range(4, 300))) == [3]


def test_a_row_that_fails_is_named() -> None:
    """C29: a failure at run time."""
    predicate = parse_predicate("n + 1 > 0", BATCH.schema)

    with pytest.raises(PredicateEvalError) as caught:
        predicate.matches(BATCH)

    assert caught.value.row == 2
    assert "overflow" in str(caught.value)
    with pytest.raises(PredicateEvalError):
        predicate.filter(BATCH)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("10 / n > 1", 1),
        ("10 % n = 1", 1),
        ("s = 5", 1),
        ("CAST(s AS INT) = 5", 1),
        ("CAST(x AS INT) = 1", 0),
        ("CAST(n AS TINYINT) = 1", 2),
        ("CAST(id * 1000 AS TINYINT) = 1", 0),
        ("CAST(m AS DECIMAL(2,2)) = 0.5", 0),
    ],
)
def test_what_fails_fails_at_the_first_such_row(text: str, row: int) -> None:
    with pytest.raises(PredicateEvalError) as caught:
        rows(text)

    assert caught.value.row == row


def test_the_text_is_kept_and_parses_to_the_same() -> None:
    """C31."""
    predicate = parse_predicate(" id  > 2 ", BATCH.schema)

    assert predicate.text == " id  > 2 "
    again = pickle.loads(pickle.dumps(predicate))
    assert again.matches(BATCH) == predicate.matches(BATCH)


def test_columns_are_named_as_the_schema_has_them() -> None:
    predicate = parse_predicate("X > 1 AND ID = 1 AND x < 3", BATCH.schema)

    assert predicate.columns == ("id", "x")


def test_two_columns_that_differ_in_case_alone_are_not_guessed_at() -> None:
    schema = pa.schema({"a": pa.int32(), "A": pa.int32()})

    with pytest.raises(PredicateError, match="any of"):
        parse_predicate("a = 1", schema)


def test_a_batch_with_other_columns_is_refused_and_other_order_is_not() -> None:
    predicate = parse_predicate("id > 2", BATCH.schema)

    assert predicate.filter(BATCH.select(["x", "id"]))["id"].to_pylist() == [3, 4]
    with pytest.raises(InvalidError):
        predicate.matches(BATCH.select(["x"]))


def test_arrow_types_are_taken_as_spark_takes_them() -> None:
    batch = pa.record_batch(
        {
            "u": pa.array([2**64 - 1, 0], pa.uint64()),
            "b": pa.array([255, 1], pa.uint8()),
            "l": pa.array(["a", "b"], pa.large_string()),
            "d": pa.array(["a", "b"]).dictionary_encode(),
            "v": pa.array(["a", "b"], pa.string_view()),
            "t": pa.array([0, 1], pa.timestamp("ms")),
            "h": pa.array([1.0, 2.0], pa.float16()),
        }
    )

    assert rows("u > 9223372036854775807", batch) == [0]
    assert rows("b + b > 500", batch) == [0]
    assert rows("l = 'a' AND d = 'a' AND v = 'a'", batch) == [0]
    assert rows("t > '1970-01-01'", batch) == [1]
    assert rows("h IS NULL", batch) == []
    with pytest.raises(UnsupportedPredicateError):
        rows("h > 1", batch)


def test_events_have_six_columns() -> None:
    assert EVENT_COLUMNS.names == [
        *("kind", "key", "payload", "headers", "occurred_at", "timestamp")
    ]
    text = (
        "kind = 'a' AND headers['x'] = 'y' AND timestamp > occurred_at AND key IS NULL "
        "AND payload.a = 1"
    )
    assert parse_predicate(text, EVENT_COLUMNS).columns == tuple(EVENT_COLUMNS.names)


def test_many_predicates_get_the_same_answers_in_one_pass() -> None:
    texts = ["id > 2", "x = y", "n > 0 OR id > 2", "", "1 = 2", "s LIKE 'a%'", "id > 2"]
    predicates = [parse_predicate(text, BATCH.schema) for text in texts]

    found = matches_each(predicates, BATCH)

    assert found == [predicate.matches(BATCH) for predicate in predicates]
    assert all(mask.null_count == 0 for mask in found)
    assert matches_each([], BATCH) == []


def test_one_of_many_that_fails_is_named() -> None:
    texts = ["id <> 3 AND n + 1 > 0", "n * 2 > 0"]
    predicates = [parse_predicate(text, BATCH.schema) for text in texts]

    with pytest.raises(PredicateEvalError, match=r"n \* 2 > 0"):
        matches_each(predicates, BATCH)
    assert matches_each(predicates[:1], BATCH)[0].to_pylist() == [False, True, False, False]


def test_predicates_of_two_schemas_are_not_evaluated_together() -> None:
    other = parse_predicate("kind = 'a'", EVENT_COLUMNS)

    with pytest.raises(InvalidError):
        matches_each([parse_predicate("id = 1", BATCH.schema), other], BATCH)


def test_slices_give_the_answers_of_their_rows() -> None:
    ok: Any = parse_predicate("ok AND (x > 1 OR id < 9)", BATCH.schema)

    assert ok.matches(BATCH.slice(1, 3)).to_pylist() == [False, False, True]
