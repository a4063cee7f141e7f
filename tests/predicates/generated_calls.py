"""Seeded predicates on payloads, nested columns and all functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

Item = TypeVar("Item")

TEXTS = (
    *("", " ", "a", "A", " a ", "ab", "abc", "aXb", "x-y", "xx", "ß", "日本", "😀b", "a\nb", "É"),
    *("5", "-3", " 7 ", "1.5", "1e2", "true", "No", "2020-01-01", "2020-02-29T12:34:56.789Z"),
    *("1969-12-31 23:59:59", "2020-01-01T00:00:00+02:00", "12", "0"),
)
QUOTED = (
    *("''", "' '", "'a'", "'b'", "'ab'", "'xx'", "'5'", "'ß'", "'日'", "'😀'", "'A'", "'-'"),
    *("'true'", "'2020-01-01'"),
)
JSON = (
    *("0", "1", "-1", "5", "100", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("123456789012345678901234567890", "1.5", "1.50", "100.5", "-0.0", "1e3", "2.5e-3", "-7.25"),
    *("0.1", "true", "false", "null", "[]", "{}", "[1,2]", '{"z":1,"b":[1.50,null,"x\\"é"]}'),
)
PATHS = (
    *("payload.n", "payload.n", "payload.n", "payload.s", "payload.s", "payload.s", "payload.f"),
    *("payload.mix", "payload.mix", "payload.at", "payload.o.c", "payload.o.d.e", "payload.l[0]"),
    *(
        "payload.l[1].k",
        "payload.`a b`",
        "payload['a b']",
        "payload.missing",
        "payload.o",
        "payload",
    ),
    *("payload.order", "payload.N"),
)
WHOLE = ("i32", "i64", "i8", "j32", "0", "1", "2", "-3", "7", "127", "255")
DECIMALS = ("m", "n", "1.5", "0.25", "-2.50")
PATTERNS = (
    *("a", "^a", "b$", "^a.*b$", "[0-9]+", "^[^a]*$", "a|x", "(ab)+c?", "x{2}", "a{1,2}b", "\\\\d"),
    *(
        "\\\\w\\\\s",
        "^.$",
        ".b",
        "[a-c]",
        "\\\\.",
        "\\\\S+",
        "(?:a|b){2}",
        "^$",
        "é|É",
        "[\\\\-x]y",
    ),
    *("a*?b", "\\\\Aa\\\\z", "日", "[^\\\\d]"),
)
REGULAR = ("rlike", "regexp", "regexp_like")
UNITS = (
    *("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    *("millisecond", "microsecond"),
)
FIELDS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOY"),
    *("HOUR", "MINUTE", "SECOND"),
)
SPANS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DAYS", "HOURS")


class Calls:
    """Makes predicates of functions and paths."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def _pick(self, choices: Sequence[Item]) -> Item:
        return self._random.choice(choices)

    # --- rows ---

    def columns(self, rows: int) -> dict[str, pa.Array]:
        """Return the columns that these predicates read beside the others."""
        return {
            "payload": pa.array([self._payload() for _ in range(rows)], pa.string()),
            "st": self._made(
                rows,
                pa.struct(
                    [("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("d", pa.float64())]))]
                ),
                lambda: {
                    "a": self._pick((None, 1, -5, 2147483647)),
                    "b": self._pick((None, *TEXTS)),
                    "c": self._pick((None, {"d": self._pick((None, 1.5, float("nan")))})),
                },
            ),
            "ai": self._made(
                rows,
                pa.list_(pa.int32()),
                lambda: [self._pick((None, 0, 1, 5)) for _ in range(self._random.randrange(1, 4))],
            ),
            "texts": self._made(
                rows,
                pa.list_(pa.string()),
                lambda: [self._pick((None, *TEXTS)) for _ in range(self._random.randrange(4))],
            ),
            "mi": self._made(
                rows,
                pa.map_(pa.int32(), pa.float64()),
                lambda: [(key, self._pick((None, 0.0, 1.5))) for key in (1, 5)],
            ),
        }

    def _made(self, rows: int, kind: pa.DataType, value: Callable[[], Any]) -> pa.Array:
        share = self._pick((0.0, 0.2))
        return pa.array(
            [None if self._random.random() < share else value() for _ in range(rows)], kind
        )

    def _payload(self) -> str:
        if self._random.random() < 0.05:
            return self._pick(("null", "5", '"a"', "[1]", "{}"))
        members: dict[str, Callable[[], str]] = {
            "n": lambda: self._pick(JSON[:19]),
            "s": self._text_json,
            "f": lambda: self._pick(("true", "false", "null", '"yes"')),
            "mix": lambda: self._pick((self._pick(JSON), self._text_json())),
            "at": lambda: self._pick(('"2020-01-01"', '"2020-02-29T12:34:56.789Z"', "5", '"x"')),
            "o": lambda: self._pick(
                ('{"c":"DE","d":{"e":5}}', '{"c":1,"d":[]}', '{"d":{"e":"x"}}', "7", "[1]")
            ),
            "l": lambda: self._pick(('[1,{"k":"v"}]', '["a"]', "[]", '{"k":1}', "[null,[2]]")),
            "a b": lambda: self._pick(("1", '"a"', "null")),
            "order": lambda: self._pick(("1", "2.5")),
        }
        kept = [name for name in members if self._random.random() < 0.8]
        return "{" + ",".join(f'"{name}":{members[name]()}' for name in kept) + "}"

    def _text_json(self) -> str:
        return '"' + self._pick(TEXTS).replace("\n", "\\n") + '"'

    # --- predicates ---

    def predicate(self) -> str:
        """Return a predicate that has a function or a path."""
        return self._pick(
            (self._number_test, self._text_test, self._text_test, self._moment_test, self._choice,
             self._path_test, self._path_test, self._path_test, self._nested, self._pattern,
             self._guarded, self._cast)
        )()  # fmt: skip

    def _op(self) -> str:
        return self._pick(("=", "<>", "<", "<=", ">", ">=", "<=>"))

    def text(self, depth: int = 1) -> str:
        """Return something that is a STRING."""
        if depth == 0:
            return self._pick(("s", "t", "z", "st.b", "h['x']", self._pick(QUOTED), "payload.s"))
        inner = self.text(depth - 1)
        other = self._pick(("s", "t", *QUOTED))
        number = self._pick(("0", "1", "2", "-1", "-2", "5", "i8"))
        count = self._pick(("0", "1", "2", "3", "j32"))
        return self._pick(
            (
                inner,
                f"substring({inner}, {number})",
                f"substring({inner}, {number}, {count})",
                f"trim({inner})",
                f"trim({self._pick(('BOTH', 'LEADING', 'TRAILING'))} {other} FROM {inner})",
                f"btrim({inner}, {other})",
                f"ltrim({inner})",
                f"rtrim({inner})",
                f"concat({inner}, {other})",
                f"concat({inner}, {self._pick(WHOLE)}, b, m)",
                f"({inner} || {other})",
                f"replace({inner}, {other})",
                f"replace({inner}, {other}, {self._pick(QUOTED)})",
                f"lower({inner})",
                f"upper({inner})",
                f"coalesce({inner}, {other})",
                f"nvl({inner}, {other})",
                f"nullif({inner}, {other})",
                f"if(b, {inner}, {other})",
                f"CASE WHEN c THEN {inner} WHEN i32 > 1 THEN {other} END",
                f"CAST({self._pick(('i32', 'm', 'b'))} AS STRING)",
            )
        )

    def number(self, depth: int = 1) -> str:
        """Return something that is a number."""
        if depth == 0:
            return self._pick((*WHOLE, *DECIMALS, "d", "e", "1e1", "st.a", "payload.n", "mi[5]"))
        inner, whole = self.number(depth - 1), self._pick(WHOLE)
        return self._pick(
            (
                inner,
                f"round({inner})",
                f"round({inner}, {self._pick(('0', '1', '2', '5'))})",
                f"floor({inner})",
                f"ceil({inner})",
                f"abs({self._pick(('d', 'm', 'payload.n', '-2.5'))})",
                f"abs({inner})",
                f"mod({whole}, {self._pick(('2', '-3', '7'))})",
                f"{self._pick(('d', 'payload.n', 'f'))} % {self._pick(('2', '-3', '0.5e0'))}",
                f"({whole} & {self._pick(WHOLE)})",
                f"({whole} | {self._pick(WHOLE)})",
                f"({whole} ^ {self._pick(WHOLE)})",
                f"~{self._pick(('i32', 'i64', 'i8'))}",
                f"{self._pick(DECIMALS)} / {self._pick(('2', '-0.5', '3', '1.25', 'm', '7'))}",
                f"{self._pick(('i32', 'm'))} / {self._pick(('2.5', '3.0', '-7.00'))}",
                f"length({self.text(0)})",
                f"instr({self.text(0)}, {self._pick(QUOTED)})",
                f"coalesce({inner}, {self.number(0)})",
                f"nullif({inner}, {self.number(0)})",
                f"if({inner} > 1, {inner}, {self.number(0)})",
                f"CASE i32 WHEN 1 THEN {inner} WHEN {self._pick(WHOLE)} THEN 5 ELSE 0 END",
                f"extract({self._pick(FIELDS)} FROM {self._pick(('ts', 'nz', 'day'))})",
                f"{self._pick(('year', 'month', 'day', 'hour', 'minute', 'second'))}(ts)",
                f"datediff({self.day()}, {self.day()})",
                f"size({self._pick(('ai', 'texts', 'mi', 'h'))})",
                f"payload.n * {inner}",
                f"payload.n + {self._pick(('1', 'payload.o.d.e'))}",
                f"-{self._pick(('d', 'm', 'payload.n'))}",
            )
        )

    def day(self) -> str:
        """Return something that is a DATE."""
        return self._pick(
            ("day", "DATE '2020-02-29'", "'2020-01-01'", "CAST(ts AS DATE)", "to_date(ts)",
             f"date_add(day, {self._pick(('1', '-31', 'i8'))})", "date_sub(day, 1)",
             f"day + INTERVAL {self._pick(('1', '-13'))} {self._pick(('DAY', 'MONTH', 'YEAR'))}",
             "TRY_CAST(s AS DATE)", "payload.at::DATE")
        )  # fmt: skip

    def moment(self) -> str:
        """Return something that is a TIMESTAMP."""
        span = f"INTERVAL {self._pick(('1', chr(39) + '5' + chr(39), '400'))} {self._pick(SPANS)}"
        return self._pick(
            ("ts", "ts", "TIMESTAMP '2020-01-01 00:00:00'", f"ts {self._pick('+-')} {span}",
             f"date_trunc('{self._pick(UNITS)}', {self._pick(('ts', 'day'))})", "to_timestamp(day)",
             "TRY_CAST(s AS TIMESTAMP)", f"day - {span}", "to_timestamp('2020-02-29T12:34:56Z')",
             "TRY_CAST(payload.at AS TIMESTAMP)")
        )  # fmt: skip

    def _number_test(self) -> str:
        number = self.number()
        return self._pick(
            (
                f"{number} {self._op()} {self.number(0)}",
                f"{number} {self._op()} {self.number(0)}",
                f"{number} IN (0, 1, {self._pick(WHOLE)})",
                f"{number} BETWEEN 0 AND 5",
                f"{number} IS NULL",
            )
        )

    def _text_test(self) -> str:
        text = self.text(self._pick((1, 1, 2)))
        name = self._pick(("contains", "startswith", "endswith"))
        return self._pick(
            (
                f"{text} {self._op()} {self.text(0)}",
                f"{text} = {self._pick(QUOTED)}",
                f"{name}({text}, {self._pick((*QUOTED, 't'))})",
                f"{text} IN ('a', 'b', '5')",
                f"{text} IS NOT NULL",
                f"instr({text}, {self._pick((*QUOTED, 't'))}) > 0",
            )
        )

    def _moment_test(self) -> str:
        kind = self._pick((self.day, self.moment))
        return self._pick(
            (
                f"{kind()} {self._op()} {kind()}",
                f"{self.moment()} {self._op()} {self.day()}",
                f"{kind()} IS NULL",
            )
        )

    def _pattern(self) -> str:
        text, no = self.text(0), self._pick(("", "NOT "))
        like = self._pick(("a%", "%B%", "_", "%ß", "A_", "%", "x-y", "%日%"))
        many = ", ".join(f"'{self._pick(('a%', '%b', '_', '5'))}'" for _ in range(2))
        return self._pick(
            (
                f"{text} {no}RLIKE '{self._pick(PATTERNS)}'",
                f"{text} {no}REGEXP '{self._pick(PATTERNS)}'",
                f"{self._pick(REGULAR)}({text}, '{self._pick(PATTERNS)}')",
                f"{text} {no}ILIKE '{like}'",
                f"upper({text}) ILIKE '{like}'",
                f"{text} {no}LIKE {self._pick(('ANY', 'ALL'))} ({many})",
                f"{text} {no}ILIKE ANY ({many})",
            )
        )

    def _choice(self) -> str:
        kind = self._pick((self.text, self.number))
        return self._pick(
            (
                f"CASE WHEN {self._path_test()} THEN b WHEN c THEN TRUE ELSE FALSE END",
                f"if(b, c, {self._path_test()})",
                "coalesce(b, c, FALSE)",
                f"coalesce({kind(0)}, {kind(0)}) {self._op()} {kind(0)}",
                f"CASE WHEN {kind(0)} = {kind(0)} THEN 1 ELSE 2 END = 1",
                f"nullif({kind(0)}, {kind(0)}) IS NULL",
                f"(b OR {self._path_test()}) AND -- a comment\n NOT c /* and /* another */ */",
            )
        )

    def _path_test(self) -> str:
        path = self._pick(PATHS)
        value = self._pick(
            ("100", "1", "1.5", "0.1", "1e3", "'5'", "'a'", "'DE'", "TRUE", "DATE '2020-01-01'",
             "TIMESTAMP '2020-02-29 12:34:56.789Z'", "i32", "d", "s", "b", "ts", "m")
        )  # fmt: skip
        return self._pick(
            (
                f"{path} {self._op()} {value}",
                f"{path} {self._op()} {value}",
                f"{value} {self._op()} {path}",
                f"{path} IS {self._pick(('', 'NOT '))}NULL",
                f"{path}",
                f"NOT {path}",
                f"{path} IN (1, 5, 100)",
                f"{path} NOT IN ('a', '5', NULL)",
                f"{path} BETWEEN 1 AND 100",
                f"{path} LIKE '%a%'",
                f"lower({path}) = 'a'",
                f"{path}::{self._pick(('STRING', 'DOUBLE', 'INT'))} = '5'",
                f"coalesce({path}, 0) > 1",
                f"{path} * 2 > {self._pick(('payload.o.d.e', '10'))}",
                f"{path} > 1 AND payload.n < 50 AND payload.s IS NOT NULL",
            )
        )

    def _cast(self) -> str:
        path = self._pick(PATHS)
        kind = self._pick(
            ("STRING", "BOOLEAN", "INT", "BIGINT", "SMALLINT", "DOUBLE", "DECIMAL(10,2)",
             "DECIMAL(38,0)", "DATE", "TIMESTAMP")
        )  # fmt: skip
        value = {"STRING": "'5'", "BOOLEAN": "TRUE", "DATE": "DATE '2020-01-01'"}.get(
            kind, "TIMESTAMP '2020-01-01 00:00:00'" if kind == "TIMESTAMP" else "5"
        )
        return self._pick(
            (
                f"TRY_CAST({path} AS {kind}) {self._op()} {value}",
                f"TRY_CAST({path} AS {kind}) IS NULL",
                f"{path}::{kind} {self._op()} {value}",
                f"CAST({self._pick(('s', 'z'))} AS DECIMAL(8,2)) > 1",
                f"TRY_CAST({self._pick(('s', 't'))} AS DECIMAL(8,2)) = {self._pick(DECIMALS)}",
                f"TRY_CAST(s AS {self._pick(('DATE', 'TIMESTAMP'))}) IS NOT NULL",
                f"{self._pick(('i32', 'm', 's'))}::{self._pick(('INT', 'STRING', 'DOUBLE'))} = 5",
            )
        )

    def _nested(self) -> str:
        return self._pick(
            (
                f"st.a {self._op()} {self._pick(WHOLE)}",
                f"st.b {self._op()} {self._pick(QUOTED)}",
                "st.c.d > 1",
                "ST.C.D IS NULL",
                f"ai[{self._pick('012')}] = 1",
                f"array_contains(ai, {self._pick(('1', '5', 'i32'))})",
                f"array_contains(texts, {self._pick((*QUOTED, 's'))})",
                "NOT array_contains(ai, 5)",
                f"size({self._pick(('ai', 'texts', 'mi', 'h'))}) {self._op()} 2",
                f"mi[{self._pick('159')}] {self._op()} 1.5",
                "st IS NOT NULL AND ai IS NULL",
            )
        )

    def _guarded(self) -> str:
        return self._pick(
            (
                "payload.n::INT > 1",
                "i32 <> 0 AND m / i32 > 1",
                "payload.n IS NOT NULL AND payload.s = 'a'",
                "size(ai) > 1 AND ai[1] = 5",
                "abs(i32) > 5",
                "abs(i32) > 5 AND abs(j64) < 5",
                "m / n > 1",
                "n <> 0 AND m / n > 1",
                "payload.n % 2 = 1 OR payload.f",
                "d % e > 1",
            )
        )
