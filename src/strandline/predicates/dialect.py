"""The allow-list: all forms that a predicate may contain, and their limits.

`docs/reference/predicates.md` shows these tables; a test checks that both are equal.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

TEXT_CHARS_MAX: Final = 16_384
TOKENS_MAX: Final = 2_048
NESTING_MAX: Final = 24
"""The maximum nesting of parentheses, and number of signs or NOTs in a row."""
DEPTH_MAX: Final = 64
"""The maximum depth of the tree; a chain of ANDs or of ORs is one level."""
PATTERN_CHARS_MAX: Final = 1_024
PATTERN_WILDCARDS_MAX: Final = 32
REPETITIONS_MAX: Final = 100
"""The maximum number of repetitions in a regular expression."""
STEPS_MAX: Final = 16
"""The maximum number of steps of a path into a value."""

TRUNCATED: Final = (
    *("year", "quarter", "month", "week", "day"),
    *("hour", "minute", "second", "millisecond", "microsecond"),
)
EXTRACTED: Final = (
    *("year", "quarter", "month", "week", "day", "dayofweek", "doy"),
    *("hour", "minute", "second"),
)
INTERVALS: Final = (
    *("year", "month", "week", "day"),
    *("hour", "minute", "second", "millisecond", "microsecond"),
)


class Form(NamedTuple):
    """One line of the dialect's table."""

    form: str
    takes: str
    meaning: str


FORMS: Final = (
    Form("`column`, `` `any name` ``", "a column of the topic", "in upper or lower case"),
    Form(
        "`payload.a.b[0].c`",
        "the payload of an event, or a column of JSON; ``.`any name` ``, `['any name']`",
        "NULL where there is no such value; see below",
    ),
    Form("`struct.field`", "a column with fields", "NULL of NULL"),
    Form(
        "`map['key']`, `map[5]`",
        "a map from text or integers, such as `headers`",
        "NULL without such a key",
    ),
    Form("`array[0]`", "an array", "an error where there is no such position"),
    Form("`TRUE`, `FALSE`, `NULL`", "", ""),
    Form("`12`, `1.5`, `1e3`", "", "INT or BIGINT by size, DECIMAL, DOUBLE"),
    Form("`'text'`, `\"text\"`", "", r"escapes: `\\` `\'` `\"` `\n` `\r` `\t` `\%` `\_`"),
    Form("`DATE '2026-01-31'`", "", ""),
    Form("`TIMESTAMP '2026-01-31 12:00:00.5Z'`", "", "UTC if no zone is given"),
    Form("`a AND b`, `a OR b`, `NOT a`", "BOOLEAN", "three-valued logic"),
    Form(
        "`=` `==` `<>` `!=` `<` `<=` `>` `>=`",
        "two values with a common type",
        "NaN is equal to itself and above all numbers, -0.0 is 0.0, text is compared by bytes",
    ),
    Form("`a <=> b`, `a IS [NOT] DISTINCT FROM b`", "the same", "NULL is a value like others"),
    Form("`a [NOT] BETWEEN b AND c`", "the same", "`a >= b AND a <= c`"),
    Form(
        "`a [NOT] IN (b, c, …)`",
        "values of one kind: all text, or none",
        "NULL where only a NULL could have matched",
    ),
    Form("`a IS [NOT] NULL`", "anything", ""),
    Form("`a IS [NOT] UNKNOWN`", "BOOLEAN, or what reads a column", "the same as IS [NOT] NULL"),
    Form("`a IS [NOT] TRUE`, `a IS [NOT] FALSE`", "BOOLEAN", ""),
    Form(
        "`a [NOT] LIKE 'pattern' [ESCAPE 'c']`",
        "STRING",
        r"`%` is any text, `_` one character; `\` escapes them by default",
    ),
    Form("`a [NOT] ILIKE 'pattern' [ESCAPE 'c']`", "STRING", "the same of `lower(a)`"),
    Form("`a [NOT] [I]LIKE ANY|ALL ('p', 'q', …)`", "STRING", "each joined by OR, or by AND"),
    Form("`a [NOT] RLIKE 'pattern'`, `REGEXP`", "STRING", "finds a regular expression; see below"),
    Form(
        "`CASE WHEN a THEN b … [ELSE c] END`, `CASE a WHEN b THEN c … END`",
        "BOOLEAN, values with a common type",
        "NULL without ELSE",
    ),
    Form("`a || b`", "as `concat`", "as `concat`"),
    Form("`a & b`, `a | b`, `a ^ b`, `~a`", "integers", "bit by bit"),
    Form(
        "`a + INTERVAL 5 DAY`, `a - INTERVAL '5' HOUR`",
        "TIMESTAMP or DATE",
        ", ".join(f"`{unit}`" for unit in INTERVALS),
    ),
    Form("`-- comment`, `/* comment */`", "", ""),
    Form("`a + b`, `a - b`, `a * b`, `-a`", "numbers", "an integer that overflows is an error"),
    Form("`a / b`", "numbers", "DOUBLE, of decimals DECIMAL; division by zero is an error"),
    Form(
        "`a % b`",
        "numbers except DECIMAL, which is cast to DOUBLE first",
        "the sign of `a`; by zero is an error",
    ),
)
"""The forms of a predicate, in addition to functions and casts."""


class Function(NamedTuple):
    """One line of the table of functions."""

    form: str
    takes: str
    gives: str
    example: str
    """A predicate that is true."""


FUNCTIONS: Final = {
    "lower": Function("`lower(a)`", "STRING", "STRING", "lower('ÄB') = 'äb'"),
    "upper": Function("`upper(a)`", "STRING", "STRING", "upper('ß') = 'SS'"),
    "length": Function("`length(a)`", "STRING", "INT, in characters", "length('日本') = 2"),
    "substring": Function(
        "`substring(a, from[, count])`",
        "STRING, INT, INT",
        "STRING; the first character is 1, -1 is the last",
        "substring('strand', 2, 3) = 'tra'",
    ),
    "trim": Function(
        "`trim([BOTH|LEADING|TRAILING] [b FROM] a)`",
        "STRING, STRING",
        "STRING without spaces, or characters of `b`, at its ends",
        "trim(LEADING 'x' FROM 'xay') = 'ay'",
    ),
    "btrim": Function("`btrim(a[, b])`", "STRING, STRING", "the same", "btrim(' a ') = 'a'"),
    "ltrim": Function("`ltrim(a)`", "STRING", "STRING", "ltrim(' a ') = 'a '"),
    "rtrim": Function("`rtrim(a)`", "STRING", "STRING", "rtrim(' a ') = ' a'"),
    "concat": Function(
        "`concat(a, b, …)`",
        "STRING, integers, DECIMAL, BOOLEAN",
        "STRING; NULL if one is NULL",
        "concat('a', 1) = 'a1'",
    ),
    "replace": Function(
        "`replace(a, b[, c])`", "STRING", "STRING", "replace('a-b', '-', '+') = 'a+b'"
    ),
    "contains": Function("`contains(a, b)`", "STRING, STRING", "BOOLEAN", "contains('abc', 'b')"),
    "startswith": Function(
        "`startswith(a, b)`", "STRING, STRING", "BOOLEAN", "startswith('abc', 'ab')"
    ),
    "endswith": Function("`endswith(a, b)`", "STRING, STRING", "BOOLEAN", "endswith('abc', 'c')"),
    "instr": Function(
        "`instr(a, b)`",
        "STRING, STRING",
        "INT, from 1; 0 if it is not there",
        "instr('abc', 'c') = 3",
    ),
    "rlike": Function(
        "`rlike(a, 'pattern')`", "STRING", "BOOLEAN, as `a RLIKE 'pattern'`", "rlike('a1', '[0-9]')"
    ),
    "regexp": Function(
        "`regexp(a, 'pattern')`", "STRING", "BOOLEAN, the same", "regexp('a1', '^a[0-9]$')"
    ),
    "regexp_like": Function(
        "`regexp_like(a, 'pattern')`", "STRING", "BOOLEAN, the same", "regexp_like('ab', 'a|c')"
    ),
    "if": Function(
        "`if(a, b, c)`", "BOOLEAN, two with a common type", "their type", "if(TRUE, 1, 2) = 1"
    ),
    "coalesce": Function(
        "`coalesce(a, b, …)`",
        "values with a common type",
        "the first that is not NULL",
        "coalesce(NULL, 2) = 2",
    ),
    "nvl": Function("`nvl(a, b)`", "values with a common type", "the same", "nvl(NULL, 'b') = 'b'"),
    "ifnull": Function(
        "`ifnull(a, b)`", "values with a common type", "the same", "ifnull(1, 2) = 1"
    ),
    "nullif": Function(
        "`nullif(a, b)`",
        "values with a common type",
        "NULL if they are equal, else `a`",
        "nullif(1, 1) IS NULL",
    ),
    "abs": Function(
        "`abs(a)`", "a number", "its type; the least integer is an error", "abs(-1.5) = 1.5"
    ),
    "round": Function(
        "`round(a[, digits])`",
        "a number except FLOAT, digits from 0",
        "half away from zero",
        "round(2.675e0, 2) = 2.68",
    ),
    "floor": Function("`floor(a)`", "a number", "BIGINT, or DECIMAL of one", "floor(-1.5) = -2"),
    "ceil": Function("`ceil(a)`", "a number", "BIGINT, or DECIMAL of one", "ceil(-1.5) = -1"),
    "mod": Function("`mod(a, b)`", "numbers except DECIMAL", "as `a % b`", "mod(-7, 4) = -3"),
    "date_trunc": Function(
        "`date_trunc('unit', a)`",
        "TIMESTAMP or DATE",
        "TIMESTAMP; " + ", ".join(f"`{unit}`" for unit in TRUNCATED),
        "date_trunc('hour', TIMESTAMP '2026-01-31 12:34:56') = TIMESTAMP '2026-01-31 12:00:00'",
    ),
    "date_add": Function(
        "`date_add(a, days)`",
        "DATE, INT",
        "DATE",
        "date_add(DATE '2026-01-31', 1) = DATE '2026-02-01'",
    ),
    "date_sub": Function(
        "`date_sub(a, days)`", "DATE, INT", "DATE", "date_sub(DATE '2026-02-01', 1) = '2026-01-31'"
    ),
    "datediff": Function(
        "`datediff(end, start)`",
        "DATE, DATE",
        "INT, days",
        "datediff('2026-02-01', '2026-01-31') = 1",
    ),
    "extract": Function(
        "`extract(field FROM a)`",
        "TIMESTAMP or DATE",
        "INT, `second` DECIMAL(8,6); " + ", ".join(f"`{field}`" for field in EXTRACTED),
        "extract(YEAR FROM DATE '2026-01-31') = 2026",
    ),
    **{
        name: Function(
            f"`{name}(a)`",
            "TIMESTAMP or DATE",
            "INT",
            f"{name}(TIMESTAMP '2026-01-31 12:34:56') = {value}",
        )
        for name, value in {
            "year": 2026,
            "month": 1,
            "day": 31,
            "hour": 12,
            "minute": 34,
            "second": 56,
        }.items()
    },
    "to_date": Function(
        "`to_date(a)`", "STRING, TIMESTAMP", "DATE, as CAST", "to_date('2026-01-31') > '2026-01-30'"
    ),
    "to_timestamp": Function(
        "`to_timestamp(a)`",
        "STRING, DATE",
        "TIMESTAMP, as CAST",
        "to_timestamp('2026-01-31T12:00:00Z') > DATE '2026-01-31'",
    ),
    "current_timestamp": Function(
        "`current_timestamp[()]`",
        "",
        "TIMESTAMP at which the predicate was parsed",
        "current_timestamp > TIMESTAMP '2020-01-01 00:00:00'",
    ),
    "now": Function("`now()`", "", "the same", "now() = current_timestamp()"),
    "current_date": Function(
        "`current_date[()]`", "", "DATE of it, in UTC", "current_date() > DATE '2020-01-01'"
    ),
    "size": Function("`size(a)`", "an array or a map", "INT; NULL of NULL", "size(tags) = 2"),
    "array_contains": Function(
        "`array_contains(a, b)`", "an array, a value", "BOOLEAN", "array_contains(tags, 'x')"
    ),
    "cast": Function(
        "`CAST(a AS type)`, `a::type`",
        "see below",
        "an error where the value does not fit",
        "CAST('5' AS INT) = 5 AND '5'::INT = 5",
    ),
    "try_cast": Function(
        "`TRY_CAST(a AS type)`",
        "see below",
        "NULL where the value does not fit",
        "TRY_CAST('x' AS INT) IS NULL",
    ),
}
"""Every function, by its name in Spark. The examples are on a row with `tags`,
an array of 'x' and 'y'."""

OTHER_NAMES: Final = {
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "left": "substring(a, 1, n)",
    "right": "substring(a, -n)",
    "mid": "substring",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "strpos": "instr",
    "locate": "instr(text, part)",
    "position": "instr(text, part)",
    "charindex": "instr(text, part)",
    "ceiling": "ceil",
    "isnull": "IS NULL",
    "isnotnull": "IS NOT NULL",
    "iff": "if",
    "iif": "if",
    "lcase": "lower",
    "ucase": "upper",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "date_part": "extract(field FROM a)",
    "datepart": "extract(field FROM a)",
    "dayofmonth": "day",
    "cardinality": "size",
    "array_size": "size",
    "array_length": "size",
    "get_json_object": "payload.a.b",
    "json_extract": "payload.a.b",
    "variant_get": "payload.a.b::type",
    "try_variant_get": "TRY_CAST(payload.a.b AS type)",
    "int": "CAST(a AS INT)",
    "string": "CAST(a AS STRING)",
    "double": "CAST(a AS DOUBLE)",
    "date": "CAST(a AS DATE)",
    "timestamp": "CAST(a AS TIMESTAMP)",
    "boolean": "CAST(a AS BOOLEAN)",
    "bigint": "CAST(a AS BIGINT)",
    "try_to_timestamp": "TRY_CAST(a AS TIMESTAMP)",
    "try_to_date": "TRY_CAST(a AS DATE)",
}
"""Common alternatives, with their form in the dialect."""

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")

CASTS: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("boolean", *_INTEGERS, "string"),
    "tinyint": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "smallint": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "int": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "bigint": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "float": (*_INTEGERS, "float", "double"),
    "double": (*_INTEGERS, "float", "double"),
    "decimal": (*_INTEGERS, "double", "decimal", "string"),
    "string": (*_INTEGERS, "double", "decimal", "boolean", "string", "date", "timestamp"),
    "date": ("date", "timestamp"),
    "timestamp": ("date", "timestamp"),
}
"""From which type a cast may go to which others."""

CAST_TYPES: Final = frozenset(CASTS)

COMPARISONS: Final = frozenset(
    {"EQ", "NEQ", "NULLSAFE_EQ", "LT", "GT", "LTE", "GTE"}
    | {"IS", "LIKE", "ILIKE", "RLIKE", "IN", "BETWEEN"}
)
"""The tokens that compare: one of them between two ANDs or ORs."""

JOINTS: Final = {
    **dict.fromkeys(("PLUS", "DASH", "STAR", "SLASH", "MOD"), "arithmetic"),
    "AMP": "&",
    "PIPE": "|",
    "CARET": "^",
    "DPIPE": "||",
}
"""The arithmetic tokens. Those in separate groups have another precedence in sqlglot
than in Spark."""

TOKENS: Final = (
    COMPARISONS
    | set(JOINTS)
    | {"VAR", "IDENTIFIER", "STRING", "NUMBER", "NULL", "TRUE", "FALSE", "UNKNOWN"}
    | {"L_PAREN", "R_PAREN", "COMMA", "DCOLON", "TILDE"}
    | {"AND", "OR", "NOT", "ESCAPE", "ALIAS", "DISTINCT", "FROM", "ANY", "ALL"}
    | {"CASE", "WHEN", "THEN", "ELSE", "END", "INTERVAL", "REPLACE"}
    | {"CURRENT_TIMESTAMP", "CURRENT_DATE"}
    | {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
    | {"TEXT", "DATE", "TIMESTAMP", "TIMESTAMPTZ"}
)
"""Every kind of token, by the name that sqlglot gives to it."""
