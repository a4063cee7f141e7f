"""The same text on the same rows, here and in Spark SQL: the same rows, or both fail."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from decimal import ROUND_DOWN, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from strandline.predicates import (
    PredicateEvalError,
    UnsupportedPredicateError,
    building,
    checking,
    evaluation,
    functions,
    kernels,
    nested_kernels,
    number_kernels,
    reading,
    time_kernels,
    variant,
)
from strandline.predicates.letter_case import lowered, uppered
from strandline.predicates.pattern import pieces
from strandline.predicates.rowwise import each_row
from strandline.predicates.sql_type import DOUBLE
from tests.predicates.comparisons import INTERPRETED, Compared, asked, compare, set_up
from tests.predicates.generated import Generator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

WIDE = Context(prec=200, rounding=ROUND_DOWN)

PREDICATES = 200

CHOSEN = (
    "d > e", "d = d", "d <= 1e3", "d IN (0e0, 1e0)", "NOT d >= f", "d <> e", "f = 0.1",
    "-j32 IN (u32)", "i32 IN (j32)",
    "i32 + j32 > 0", "i64 * j64 > 0", "-i8 > 0", "u8 + u8 > 3", "i32 / j32 > 1",
    "j32 <> 0 AND i32 / j32 > 1", "i32 < 1000 AND i32 > -1000 AND i32 + 1 > 0",
    "CAST(s AS INT) + i64 > 0", "CAST(h['x'] AS INT) > 1", "CAST(d AS INT) = 1",
    "TRY_CAST(d AS BIGINT) > 0", "TRY_CAST(s AS DOUBLE) > 1", "TRY_CAST(s AS BOOLEAN)",
    "s LIKE 'a\\\\_b'", "s LIKE '%\\\\%%'", "s LIKE '_'", "s LIKE 'a/_b' ESCAPE '/'",
    "upper(s) = 'SS'", "lower(s) = 'ας'", "length(s) = 1", "s > t", "s < 'a'",
    "NOT (b AND c)", "b OR NULL", "b IS NOT TRUE", "i32 NOT IN (1, NULL)", "i32 <=> j32",
    "b AND NOT c IS UNKNOWN", "NOT b OR c", "m > d", "m + 1 > n", "w * 2 > 1", "u64 > i64",
    "TRY_CAST(m AS DECIMAL(4,1)) = 0.1", "day < ts", "ts BETWEEN '1970-01-01' AND '2020-01-01'",
    "s = '!'", "s LIKE 'a!%' ESCAPE '!'", "h['!'] IS NULL AND s <> ';'", "! b AND s = '--'",
    "i32 % 2 = 0 AND s = 'a'", "i32 % 2 = 0 OR b", "i64 % -1 = 0 AND j64 > 0", "i32 % 2 IN (0, 1)",
    "d / 2 > 1 OR b", "NOT (i8 / 3 < 1 OR c)", "(i32 % 7) IS NULL", "i32 % 0 = 1",
    "lower(upper(s)) = 'ß'", "upper(lower(s)) = 'İ'", "lower(upper(s)) = lower(s)",
    "lower(upper('ß')) = 'ss'", "upper(lower(upper(s))) = 'SS'", "lower(upper(s)) <> lower(s)",
    "s = 'a' AND lower(upper(s)) = 'a'", "s IN ('ß') AND lower(upper(s)) = 'ß'",
    "NULL IS UNKNOWN", "TRUE IS NOT UNKNOWN", "i32 IS NOT UNKNOWN", "(i32 = NULL) IS UNKNOWN",
    "CAST(ts AS DATE) = DATE '1969-12-31'", "h['x'] = '5'", "h IS NULL", "z = i32", "z > 1.5",
    "payload.n > 1", "payload.n IS NULL", "payload.N IS NULL", "payload.s = '5'", "payload.f",
    "payload.mix = '1.5'", "payload.o = '{\"c\":\"DE\",\"d\":{\"e\":5}}'", "payload.l[0] = 1",
    "payload.mix > 1", "payload.n::DECIMAL(10,1) = 1.5", "payload.n::INT > 1", "payload.at > ts",
    "substring(s, 0, 1) = 'a'", "substring(s, -2, 1) = 'a'", "trim(s) = s", "btrim(s, 'a') = s",
    "round(d) = 2", "round(m, 1) = 0.1", "m / 3 > 0.4166665", "m / 3 > 0.4", "i32 / 2.5 > 1",
    "d % 2 = 1",
    "s RLIKE '^.$'", "s RLIKE '.b$'", "s RLIKE 'a.b'", "s ILIKE 'A%'", "s LIKE ANY ('a%', '5')",
    "~i8 > 5",
    "date_trunc('week', ts) = TIMESTAMP '1969-12-29 00:00:00'", "extract(DAYOFWEEK FROM ts) = 4",
    "datediff(day, '2020-01-01') > 0", "extract(WEEK FROM day) = 1",
    "ts + INTERVAL 1 MONTH > TIMESTAMP '2020-01-31 00:00:00'",
    "day - INTERVAL 1 YEAR < '2019-01-02'",
    "coalesce(i32, 5) = 5", "CASE WHEN b THEN 1 ELSE 2 END = 2", "nullif(i32, j32) IS NULL",
    "NOT array_contains(ai, 5)", "size(texts) = 0", "ai[1] = 5", "mi[9] IS NULL", "st.c.d IS NULL",
    "concat(s, t) IS NULL", "replace(s, 'a') = 'b'", "instr(s, 'b') = 2", "contains(s, 'b')",
    "TRY_CAST(s AS DECIMAL(8,2)) > 1", "floor(m) = -1", "abs(i32) > 5", "i32 & 1 = 1",
)  # fmt: skip


def test_generated_predicates_select_the_same_rows_or_fail_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert compare(spark, 1, PREDICATES, tmp_path) > PREDICATES * 0.7


@pytest.fixture(scope="module")
def chosen(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    table = Generator(77).table(200)
    with set_up(spark, INTERPRETED):
        return asked(spark, table, list(CHOSEN), tmp_path_factory.mktemp("chosen"))


def test_chosen_predicates_select_the_same_rows_or_fail_as_in_spark(chosen: Compared) -> None:
    assert not chosen.differences()


def compared_as_numbers(node: Any) -> Any:
    name = {"gt": "greater", "ge": "greater_equal", "eq": "equal"}[node.op]
    return lambda a, b: pc.call_function(name, [a, b])


def wrapping(node: Any) -> Any:
    return lambda a, b: pc.call_function("add", [a, b])


def without_escapes(pattern: str, escape: str) -> Any:
    return pieces(pattern.replace(escape, ""), "\x00")


def null_is_true(mask: Any) -> Any:
    return pc.fill_null(mask, True)


def by_text(self: Any, token: Any, name: str, before: str) -> None:
    if token.text == "!" and before not in {"", "AND"}:
        raise UnsupportedPredicateError("write NOT", position=token.start, text="")


def as_is(pattern: str) -> str:
    return pattern


def to_even(node: Any) -> Any:
    return lambda values: pc.round(values, node.detail, "half_to_even")


def cut_off(node: Any) -> Any:
    digits = Decimal(1).scaleb(-node.type.scale)
    made = pa.decimal128(node.type.precision, node.type.scale)
    return each_row(lambda a, b: WIDE.quantize(WIDE.divide(a, b), digits), made)


def other_branch(*inputs: Any) -> Any:
    return pc.if_else(pc.fill_null(inputs[0], True), inputs[len(inputs) // 2], inputs[-1])


def numbers_only(value: Any, _: Any) -> Any:
    if isinstance(value, str | dict | list):
        raise variant.NotCastable
    return float(value)


def as_python_has_it(value: Any) -> str:
    return json.dumps(value, default=float)


def without_null(lists: Any, wanted: Any) -> Any:
    return pc.fill_null(nested_kernels._array_contains(lists, wanted), False)  # noqa: SLF001


def local(moments: Any) -> Any:
    return time_kernels._local(moments)  # noqa: SLF001


def sunday_weeks(node: Any, moments: Any) -> Any:
    found = pc.floor_temporal(local(moments), 1, node.detail, week_starts_monday=False)
    return found.cast(pa.timestamp("us", tz="UTC"))


def built(op: str, bug: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setitem(kernels._BUILT, op, bug)  # noqa: SLF001


def plain(op: str, bug: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setitem(kernels._PLAIN, op, bug)  # noqa: SLF001


def without_guard(self: Any, batch: pa.RecordBatch) -> Any:
    raise PredicateEvalError(row=0, text="", reason="")


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "NaN is above nothing": lambda patch: patch.setitem(
        kernels._BUILT, "gt", compared_as_numbers  # noqa: SLF001
    ),
    "NaN is not itself": lambda patch: patch.setitem(
        kernels._BUILT, "eq", compared_as_numbers  # noqa: SLF001
    ),
    "NULL matches": lambda patch: patch.setattr(evaluation, "_without_nulls", null_is_true),
    "LIKE knows no escape": lambda patch: patch.setattr(checking, "pieces", without_escapes),
    "integers wrap around": lambda patch: patch.setitem(
        kernels._BUILT, "add", wrapping  # noqa: SLF001
    ),
    "a guard does not guard": lambda patch: patch.setattr(
        evaluation.Evaluation, "_guarded", without_guard
    ),
    "case is that of ASCII": lambda patch: patch.setitem(
        kernels._PLAIN, "upper", pc.ascii_upper  # noqa: SLF001
    ),
    "a change of case is not left out": lambda patch: patch.setattr(
        functions, "_CASE", frozenset()
    ),
    "every divisor may be zero": lambda patch: patch.setattr(
        building, "is_divisor", lambda node: False
    ),
    "a sign in quotes is the sign": lambda patch: patch.setattr(
        reading._Look, "_check_word", by_text  # noqa: SLF001
    ),
    "length is in bytes": lambda patch: patch.setitem(
        kernels._PLAIN, "length", pc.binary_length  # noqa: SLF001
    ),
    "text in a payload is no number": lambda patch: patch.setitem(
        variant._CASTS, DOUBLE, numbers_only  # noqa: SLF001
    ),
    "payloads become text as Python has it": lambda patch: patch.setattr(
        variant, "json_text", as_python_has_it
    ),
    "a pattern means to RE2 what it says": lambda patch: patch.setattr(
        functions, "for_re2", as_is
    ),
    "all blanks are trimmed": built("trim", lambda node: lambda a, *_: pc.utf8_trim_whitespace(a)),
    "halves are rounded to even": built("round", to_even),
    "a quotient of decimals is cut off": lambda patch: patch.setattr(
        number_kernels, "_quotient", cut_off
    ),
    "the week begins with Sunday": built(
        "date_trunc", lambda node: lambda a: sunday_weeks(node, a)
    ),
    "Monday is the first day": built(
        "extract", lambda node: lambda a: pc.day_of_week(local(a)).cast(pa.int32())
    ),
    "a month has 30 days": built(
        "add_months", lambda node: time_kernels._add_us(  # noqa: SLF001
            dataclasses.replace(node, detail=node.detail * 30 * 86_400_000_000)
        ) if node.type.name == "timestamp" else lambda a: a
    ),
    "NULL is true in CASE": plain("case", other_branch),
    "a NULL in an array is not there": plain("array_contains", without_null),
    "days are counted backwards": plain("datediff", lambda a, b: time_kernels._datediff(b, a)),  # noqa: SLF001
    "concat leaves out NULL": plain(
        "concat", lambda *a: pc.binary_join_element_wise(*a, "", null_handling="skip")
    ),
    "instr counts bytes from 0": plain("instr", lambda a, b: pc.find_substring(a, b.as_py())),
    "coalesce takes the last": plain("coalesce", lambda *a: pc.coalesce(*a[::-1])),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_planted_bugs_are_found(
    chosen: Compared, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)

    assert chosen.differences()


@pytest.mark.parametrize(
    "text",
    ["((", "id", "id + 1", "nothing = 1", "b = 1", "id IN ()", "NULL", "i32 IS TRUE", "id = 'x'",
     "5 IS UNKNOWN", "'a' IS NOT UNKNOWN", "b = UNKNOWN", "DATE '2020-01-01' IS UNKNOWN",
     "1 / 0 = 1", "TRUE AND 1 / 0 = 1",
     "s LIKE 'a\\\\'", "1e999 > d", "id = 1)", "s = 'a", "CAST('x' AS INT) = 1"],
)  # fmt: skip
def test_what_is_wrong_here_is_wrong_in_spark(
    spark: SparkSession, text: str, tmp_path: Path
) -> None:
    table = Generator(5).table(3)

    compared = asked(spark, table, [text], tmp_path)

    assert not compared.differences()


def test_case_is_that_of_spark_for_all_of_unicode(spark: SparkSession, tmp_path: Path) -> None:
    characters = [chr(n) for n in range(sys.maxunicode + 1) if not 0xD800 <= n < 0xE000]
    # The last sigma of a word has another form.
    words = ["ΓΣ", "ΓΣ.", "ΓΣ Γ", "Γ'Σ", "ΓΣ'Γ", "1Σ", "ΌΣΟΣ", "Γ\u00adΣ", "ΓΣ\u0301", "I\u0307"]
    pq.write_table(pa.table({"s": [*characters, *words]}), tmp_path / "texts.parquet")
    made = spark.read.parquet(str(tmp_path / "texts.parquet"))
    made.selectExpr("s", "lower(s) AS l", "upper(s) AS u").write.parquet(str(tmp_path / "made"))

    found = pq.read_table(tmp_path / "made").to_pydict()

    assert [lowered(text) for text in found["s"]] == found["l"]
    assert [uppered(text) for text in found["s"]] == found["u"]
