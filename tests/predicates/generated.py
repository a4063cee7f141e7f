"""Seeded tables and predicates: the whole dialect, on edge cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from tests.predicates.generated_calls import Calls

Item = TypeVar("Item")

TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        "aB%",
        "a_b",
        "\\",
        "b\\%",
        "x'y",
        'x"y',
        "a\nb",
        "tab\t",
        "ab\n",
        "a\rb",
    ),
    *("5", " 7 ", "+3", "-0", "007", "1.5", "1e3", "1e400", "NaN", "-inf", "Infinity", "1d"),
    *("9223372036854775807", "9223372036854775808", "-129", "128", "2147483648", "0x1p3", "1 2"),
    *("true", " T ", "No", "yes!", "1", "0", "٣", "\u00a05", "5\u2003", "\x1f6", "\x7f8"),
    *(
        "ß",
        "İ",
        "\u0131",
        "ﬁ",
        "ΑΣ",
        "Σ",
        "日本",
        "😀",
        "é",
        "é",
        "Ǆ",
        "ǆ",
        "ŉ",
        "ẞ",
        "𐐀",
        "Ⅷ",
        "￿",
    ),
    # What means something outside of quotes.
    *("!", "?", ";", "--", "/* x */", "#", "$1", "@a", "{x}", ":a", "&", "|", "^", "~", "`"),
    *("[", "]", "(", ")", "=", "<=>", ",", ".", "*", "/", "NOT", "NULL", "UNKNOWN", "int"),
)
DIVISORS = ("1", "2", "3", "-1", "-2", "-7", "128", "2147483647", "9223372036854775807")
WHOLE = (0, 1, -1, 2, 3, 5, 7, 10, 100, -100, 1000)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.1, 3.0, 7.9, 1e308, -1e308, 5e-324, 2.0**53),
    *(float("nan"), float("inf"), float("-inf"), 2147483647.9, 2147483648.0, 9.3e18, 127.5),
)
INTEGERS = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "j32": pa.int32(),
    "j64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
}
DECIMALS = {"m": pa.decimal128(10, 2), "n": pa.decimal128(5, 0), "w": pa.decimal128(30, 10)}
WIDE = Context(prec=60)
DECIMAL_TYPES = ("DECIMAL(5,1)", "DECIMAL(4,0)", "DECIMAL(20,3)", "DECIMAL(38,2)")
INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")


class Generator:
    """Makes one table, and predicates on it, of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.calls = Calls(self._random)

    def _pick(self, choices: Sequence[Item]) -> Item:
        return self._random.choice(choices)

    # --- rows ---

    def table(self, rows: int) -> pa.Table:
        made: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
        for name, kind in INTEGERS.items():
            made[name] = self._column(rows, kind, partial(self._integer, kind))
        for name, kind in DECIMALS.items():
            made[name] = self._column(rows, kind, partial(self._decimal, kind))
        for name, kind in {"f": pa.float32(), "d": pa.float64(), "e": pa.float64()}.items():
            made[name] = self._column(rows, kind, lambda: self._pick(FLOATS))
        for name in ("s", "t"):
            made[name] = self._column(rows, pa.string(), lambda: self._pick(TEXTS))
        # Text that is nearly always a number, so that casts of it get somewhere.
        made["z"] = self._column(rows, pa.string(), lambda: str(self._pick(WHOLE)))
        for name in ("b", "c"):
            made[name] = self._column(rows, pa.bool_(), lambda: self._pick((True, False)))
        made["day"] = self._column(rows, pa.date32(), self._day)
        made["ts"] = self._column(rows, pa.timestamp("us", tz="UTC"), self._moment)
        made["nz"] = self._column(
            rows, pa.timestamp("us"), lambda: self._moment().replace(tzinfo=None)
        )
        made["h"] = self._column(rows, pa.map_(pa.string(), pa.string()), self._map)
        made.update(self.calls.columns(rows))
        made["payload"] = pa.ExtensionArray.from_storage(pa.json_(), made["payload"])
        return pa.table(made)

    def _column(self, rows: int, kind: pa.DataType, value: Callable[[], Any]) -> pa.Array:
        share = self._pick((0.0, 0.2, 0.5))
        values = [None if self._random.random() < share else value() for _ in range(rows)]
        return pa.array(values, kind)

    def _integer(self, kind: pa.DataType) -> int:
        is_signed = pa.types.is_signed_integer(kind)
        bits = kind.bit_width - is_signed
        least, most = -(2**bits) if is_signed else 0, 2**bits - 1
        choices = [n for n in WHOLE if least <= n <= most]
        return int(self._pick((self._pick(choices), self._pick(choices), least, most)))

    def _decimal(self, kind: pa.DataType) -> Decimal:
        most = 10**kind.precision - 1
        number = self._pick((*WHOLE, 125, 150, -150, 55, most, -most))
        return WIDE.scaleb(Decimal(max(-most, min(most, number))), -kind.scale)

    def _day(self) -> date:
        days = self._pick((0, -1, 1, 18262, 18263, -719162, 2932896))
        return date(1970, 1, 1) + timedelta(days=days)

    def _moment(self) -> datetime:
        us = self._pick((0, -1, 1, 1577836800000000, 1577836800500000, -62135596800000000))
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)

    def _map(self) -> list[tuple[str, str | None]]:
        keys = self._random.sample(("x", "y", "", "é"), self._random.randrange(4))
        return [(key, self._pick((None, self._pick(TEXTS), "5"))) for key in keys]

    # --- predicates ---

    def predicate(self) -> str:
        """Return a predicate: of functions and paths, of the other forms, or of both."""
        which = self._random.random()
        if which < 0.45:
            return self.calls.predicate()
        if which < 0.6:
            joint = self._pick((" AND ", " AND ", " OR "))
            parts = [self.calls.predicate(), self._pick((self.calls.predicate, self._compare))()]
            return joint.join(f"({part})" for part in parts)
        return self._boolean(self._pick((0, 0, 0, 1, 2, 3)))

    def _boolean(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.7:
            parts = [self._boolean(depth - 1) for _ in range(self._random.randrange(2, 4))]
            kept = [part if self._random.random() < 0.5 else f"({part})" for part in parts]
            found = self._pick((" AND ", " AND ", " OR ")).join(kept)
            return self._pick((found, found, f"NOT ({found})", f"({found}) IS NOT TRUE"))
        leaf = self._pick(
            (self._compare, self._compare, self._compare, self._between, self._among, self._like,
             self._test, self._affix, self._plain, self._same, self._guarded, self._divided,
             self._recased)
        )()  # fmt: skip
        return self._pick((leaf, leaf, leaf, f"NOT {leaf}", f"(({leaf}))"))

    def _plain(self) -> str:
        choices = (
            "b",
            "c",
            "TRUE",
            "FALSE",
            "CAST(NULL AS BOOLEAN)",
            f"CAST({self._whole(1)} AS BOOLEAN)",
            f"TRY_CAST({self._text(0)} AS BOOLEAN)",
            f"CAST({self._pick(('b', 'c'))} AS INT) = 1",
        )
        return str(self._pick(choices))

    def _compare(self) -> str:
        op = self._pick(("=", "==", "<>", "!=", "<", "<=", ">", ">="))
        left, right = self._pair()
        return f"{left} {op} {right}"

    def _same(self) -> str:
        op = self._pick(("<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        left, right = self._pair()
        return f"{left} {op} {right}"

    def _pair(self) -> tuple[str, str]:
        kinds = (
            (self._number, self._number),
            (self._number, self._number),
            (self._number, self._numeric_text),
            (self._text, self._text),
            (self._text, self._text),
            (self._moments, self._moments),
            (self._truth, self._truth),
        )
        first, second = self._pick(kinds)
        pair = first(1), second(1)
        if self._random.random() < 0.04:
            pair = pair[0], "NULL"
        return pair if self._random.random() < 0.7 else pair[::-1]

    def _between(self) -> str:
        kind = self._pick((self._number, self._text, self._moments))
        no = self._pick(("", "NOT "))
        return f"{kind(1)} {no}BETWEEN {kind(0)} AND {kind(0)}"

    def _among(self) -> str:
        kind = self._pick((self._number, self._number, self._text))
        count = self._pick((1, 2, 3, 12))
        values = [kind(0) for _ in range(count)] + self._pick(([], [], ["NULL"]))
        return f"{kind(1)} {self._pick(('', 'NOT '))}IN ({', '.join(values)})"

    def _like(self) -> str:
        bits = ("%", "_", "a", "b", "\\\\%", "\\\\_", "\\\\\\\\", "ß", "😀", ".", "(", "\\n", "A")
        pattern = "".join(self._pick(bits) for _ in range(self._random.randrange(5)))
        escape = ""
        if self._random.random() < 0.2:
            sign = self._pick("/!#;?-")
            pattern, escape = pattern.replace("\\\\", sign), f" ESCAPE '{sign}'"
        return f"{self._text(1)} {self._pick(('', 'NOT '))}LIKE '{pattern}'{escape}"

    def _test(self) -> str:
        kind = self._pick((self._number, self._text, self._moments, self._whole_map))
        no = self._pick(("", "NOT "))
        return self._pick(
            (
                f"{kind(1)} IS {no}NULL",
                f"{self._pick((kind, self._truth))(1)} IS {no}UNKNOWN",
                f"b IS {no}{self._pick(('TRUE', 'FALSE', 'UNKNOWN'))}",
            )
        )

    def _divided(self) -> str:
        """A division by a constant, in every place where an expression is allowed."""
        divisor = self._pick((*DIVISORS, *DIVISORS, "0"))
        value = self._pick((*INTEGERS, "d", "f", "(i32 - 1)", "TRY_CAST(s AS INT)"))
        if self._random.random() < 0.5:
            made = f"{self._pick(tuple(INTEGERS))} % {divisor}"
        else:
            made = f"{value} / {self._pick((divisor, f'{divisor}e0', f'-{divisor}e-3'))}"
        no = self._pick(("", "NOT "))
        return self._pick(
            (
                f"{made} = {self._whole(0)}",
                f"{self._number(0)} < {made}",
                f"{made} {no}IN (0, 1, {self._whole(0)})",
                f"{made} {no}BETWEEN 0 AND {self._whole(0)}",
                f"{made} IS {no}NULL",
                f"{made} <=> {self._whole(0)}",
                f"({made} = 0) IS {no}{self._pick(('TRUE', 'UNKNOWN'))}",
                f"({made}) * 2 > 1",
                f"CAST({made} AS DOUBLE) > 0",
                f"({made} = 0 OR b)",
                f"({made} = 0 AND s = t)",
            )
        )

    def _recased(self) -> str:
        """Changes of case in each other, of columns and of constants."""
        made = self._text(0)
        for _ in range(self._pick((2, 2, 3))):
            made = f"{self._pick(('lower', 'upper'))}({made})"
        other = self._pick((quoted(self._pick(TEXTS)), "s", "lower(s)", "upper(t)", "lower('ß')"))
        found = f"{made} {self._pick(('=', '<>', '<', '>='))} {other}"
        beside = f"s {self._pick(('=', '<=>', '<>', '>'))} {quoted(self._pick(TEXTS))}"
        return self._pick((found, found, f"{beside} AND {found}", f"({found} OR {beside})"))

    def _whole_map(self, _: int) -> str:
        return "h"

    def _affix(self) -> str:
        name = self._pick(("startswith", "endswith"))
        return f"{name}({self._text(1)}, {self._text(0)})"

    def _guarded(self) -> str:
        return self._pick(
            (
                "j32 <> 0 AND i32 / j32 > 1",
                "j64 <> 0 AND j64 <> -1 AND i64 % j64 = 1",
                "length(z) < 3 AND z > i32",
                "i8 BETWEEN -50 AND 50 AND i8 + i8 < 10",
                "s = t AND s > 1",
                "i32 = j32 AND i32 + 1 > 0",
                f"j32 {self._pick(('=', '<=>', '>=', '<>'))} 0 AND 10 / j32 > 1",
                f"{self._whole(0)} + i32 + {self._whole(0)} > 0",
                "i32 < 1000 AND i32 > -1000 AND i32 * i32 > 5",
                "s IN ('5', '007') AND CAST(s AS INT) = 5",
                "d < 1000 AND d > -1000 AND CAST(d AS TINYINT) > 0",
                "h['x'] = '5' AND CAST(h['x'] AS INT) = 5",
            )
        )  # fmt: skip

    def _number(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.5:
            left, right = self._number(depth - 1), self._number(depth - 1)
            return self._pick(
                (
                    f"{left} {self._pick(('+', '-', '*', '/'))} {right}",
                    f"{self._whole(0)} % {self._whole(0)}",
                    f"-{self._pick((*INTEGERS, 'd', 'm'))}",
                    f"({left} - {right}) * {self._number(0)}",
                    self._cast(left, (*INTEGER_TYPES, "DOUBLE")),
                    self._cast(self._numeric_text(0), (*INTEGER_TYPES, "DOUBLE")),
                    self._cast(self._pick(("m", "w", "i32", "i64")), DECIMAL_TYPES),
                    f"length({self._text(0)})",
                )
            )
        return self._pick(
            (
                self._whole(0),
                self._pick(tuple(DECIMALS)),
                self._pick(("f", "d", "e")),
                self._pick(
                    ("0.5", "1.50", "-2.5", "100.0", "0.1", "1e3", "-0e0", "1.5e-3", "0.00")
                ),
            )
        )

    def _whole(self, _: int) -> str:
        choices = (
            *INTEGERS,
            *(str(number) for number in WHOLE),
            *("127", "128", "-128", "32768", "2147483647", "-2147483648", "2147483648"),
            *("9223372036854775807", "-9223372036854775808"),
        )
        return str(self._pick(choices))

    def _cast(self, value: str, kinds: tuple[str, ...]) -> str:
        return f"{self._pick(('', 'TRY_', 'TRY_'))}CAST({value} AS {self._pick(kinds)})"

    def _numeric_text(self, _: int) -> str:
        return str(self._pick(("z", "z", "z", "s", "'5'", "' 3 '", "h['x']")))

    def _text(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.4:
            inner = self._text(depth - 1)
            return self._pick(
                (
                    f"lower({inner})",
                    f"upper({inner})",
                    f"CAST({self._whole(0)} AS STRING)",
                    "CAST(m AS STRING)",
                    "CAST(b AS STRING)",
                )
            )
        return str(self._pick(("s", "s", "t", "z", "h['x']", "h['']", quoted(self._pick(TEXTS)))))

    def _moments(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.2:
            return str(self._pick(("CAST(ts AS DATE)", "CAST(day AS TIMESTAMP)")))
        return str(
            self._pick(
                (
                    "day",
                    "ts",
                    "nz",
                    "DATE '2020-01-01'",
                    "TIMESTAMP '2020-01-01 00:00:00'",
                    "TIMESTAMP '2020-01-01T01:00:00.5+01:00'",
                    "'2020-01-01'",
                    "'1969-12-31 23:59:59.999999'",
                )
            )
        )

    def _truth(self, _: int) -> str:
        return str(self._pick(("b", "c", "TRUE", "FALSE", "'true'", "'n'", f"({self._compare()})")))


def quoted(text: str) -> str:
    """Return the text as a predicate writes it."""
    for plain, escaped in (
        *(("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")),
    ):
        text = text.replace(plain, escaped)
    return f"'{text}'"
