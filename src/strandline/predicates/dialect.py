"""The allow-list: everything that a predicate may be made of, and how much of it.

`docs/reference/predicates.md` shows these tables, and a test holds the two equal.
"""

from typing import Final, NamedTuple

TEXT_CHARS_MAX: Final = 16_384
TOKENS_MAX: Final = 2_048
NESTING_MAX: Final = 24
"""How deep parentheses, and signs or NOTs in a row, may go."""
DEPTH_MAX: Final = 64
"""How deep the tree may be, where a chain of ANDs or of ORs is one level."""
PATTERN_CHARS_MAX: Final = 1_024
PATTERN_WILDCARDS_MAX: Final = 32


class Form(NamedTuple):
    """One line of the dialect's table."""

    form: str
    takes: str
    meaning: str


FORMS: Final = (
    Form("`column`, `` `any name` ``", "a column of the topic", "in upper or lower case"),
    Form("`map['key']`", "a map of text to text, such as `headers`", "NULL without such a key"),
    Form("`TRUE`, `FALSE`, `NULL`", "", ""),
    Form("`12`, `1.5`, `1e3`", "", "INT or BIGINT by size, DECIMAL, DOUBLE"),
    Form("`'text'`, `\"text\"`", "", r"escapes: `\\` `\'` `\"` `\n` `\r` `\t` `\%` `\_`"),
    Form("`DATE '2026-01-31'`", "", ""),
    Form("`TIMESTAMP '2026-01-31 12:00:00.5Z'`", "", "UTC if no zone is given"),
    Form("`a AND b`, `a OR b`, `NOT a`", "BOOLEAN", "three-valued logic"),
    Form(
        "`=` `==` `<>` `!=` `<` `<=` `>` `>=`",
        "two values of types that meet",
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
    Form("`a + b`, `a - b`, `a * b`, `-a`", "numbers", "an integer that overflows is an error"),
    Form("`a / b`", "numbers but DECIMAL", "always DOUBLE; division by zero is an error"),
    Form("`a % b`", "integers", "the sign of `a`; by zero is an error"),
)
"""What may stand in a predicate beside functions and casts."""

FUNCTIONS: Final = {
    "lower": Form("`lower(a)`", "STRING", "STRING"),
    "upper": Form("`upper(a)`", "STRING", "STRING"),
    "length": Form("`length(a)`", "STRING", "INT, in characters"),
    "startswith": Form("`startswith(a, b)`", "STRING, STRING", "BOOLEAN"),
    "endswith": Form("`endswith(a, b)`", "STRING, STRING", "BOOLEAN"),
    "cast": Form("`CAST(a AS type)`", "see below", "an error where the value does not fit"),
    "try_cast": Form("`TRY_CAST(a AS type)`", "see below", "NULL where the value does not fit"),
}
"""Every function, by the name that Spark has for it."""

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")

CASTS: Final = {
    "boolean": ("boolean", *_INTEGERS, "string"),
    "tinyint": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "smallint": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "int": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "bigint": (*_INTEGERS, "float", "double", "decimal", "string", "boolean"),
    "float": (*_INTEGERS, "float", "double"),
    "double": (*_INTEGERS, "float", "double"),
    "decimal": (*_INTEGERS, "double", "decimal", "string"),
    "string": (*_INTEGERS, "double", "boolean", "string"),
    "date": ("date", "timestamp"),
    "timestamp": ("date", "timestamp"),
}
"""From which type a cast may go to which others. Text that is a literal may become a
DATE or a TIMESTAMP, too."""

CAST_TYPES: Final = frozenset(CASTS)

COMPARISONS: Final = frozenset(
    {"EQ", "NEQ", "NULLSAFE_EQ", "LT", "GT", "LTE", "GTE", "IS", "LIKE", "IN", "BETWEEN"}
)
"""The tokens that compare: one of them between two ANDs or ORs."""

ARITHMETIC: Final = frozenset({"PLUS", "DASH", "STAR", "SLASH", "MOD"})

TOKENS: Final = (
    COMPARISONS
    | ARITHMETIC
    | {"VAR", "IDENTIFIER", "STRING", "NUMBER", "NULL", "TRUE", "FALSE", "UNKNOWN"}
    | {"L_PAREN", "R_PAREN", "L_BRACKET", "R_BRACKET", "COMMA"}
    | {"AND", "OR", "NOT", "ESCAPE", "ALIAS", "DISTINCT", "FROM"}
    | {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
    | {"TEXT", "DATE", "TIMESTAMP", "TIMESTAMPTZ"}
)
"""Every kind of token, by the name that sqlglot gives to it."""
