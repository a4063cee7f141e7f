"""Functions: their arguments, and their nodes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from strandline.predicates.building import Builder, is_null
from strandline.predicates.dialect import EXTRACTED, FUNCTIONS, TRUNCATED
from strandline.predicates.node import Node, literal
from strandline.predicates.regex import Refused, for_re2
from strandline.predicates.sql_type import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL_SECONDS,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VARIANT,
    VOID,
    SqlType,
    decimal,
    is_decimal,
    is_nested,
    is_number,
)

_CASE: Final = frozenset({"lower", "upper"})
_TEXTUAL: Final = (*INTEGERS, BOOLEAN)
_PARTS: Final = ("year", "month", "day", "hour", "minute", "second")
_OF_DAY: Final = frozenset(_PARTS[3:])
_DAY_US: Final = 86_400_000_000
_MANY: Final = 64
_Build = Callable[[list[Node], int], Node]


class Calling:
    """Makes the nodes of calls in one predicate."""

    def __init__(self, make: Builder, now_us: int) -> None:
        self._make = make
        self._now_us = now_us
        #: Columns in which two nested changes of case are reduced to one.
        self.recased: set[str] = set()
        texts = partial(partial, self._of_texts)
        moment = partial(partial, self._to_moment)
        now = partial(partial, self._now)
        #: The number of arguments, and the function that makes the node.
        self._calls: dict[str, tuple[int, int, _Build]] = {
            "lower": (1, 1, partial(self._recase, "lower")),
            "upper": (1, 1, partial(self._recase, "upper")),
            "length": (1, 1, texts("length", INT)),
            "substring": (2, 3, self._substring),
            "btrim": (1, 2, texts("trim", STRING)),
            "ltrim": (1, 1, texts("ltrim", STRING)),
            "rtrim": (1, 1, texts("rtrim", STRING)),
            "concat": (1, _MANY, self._concat),
            "replace": (2, 3, texts("replace", STRING)),
            "contains": (2, 2, texts("contains", BOOLEAN)),
            "startswith": (2, 2, texts("startswith", BOOLEAN)),
            "endswith": (2, 2, texts("endswith", BOOLEAN)),
            "instr": (2, 2, texts("instr", INT)),
            **dict.fromkeys(("rlike", "regexp", "regexp_like"), (2, 2, self._regular)),
            "if": (3, 3, self._if),
            "coalesce": (1, _MANY, self._coalesce),
            **dict.fromkeys(("nvl", "ifnull"), (2, 2, self._coalesce)),
            "nullif": (2, 2, self._nullif),
            "abs": (1, 1, self._abs),
            "round": (1, 2, self._round),
            "floor": (1, 1, partial(self._whole, "floor")),
            "ceil": (1, 1, partial(self._whole, "ceil")),
            "mod": (2, 2, self._mod),
            "date_trunc": (2, 2, self._trunc),
            "date_add": (2, 2, partial(self._add_days, 1)),
            "date_sub": (2, 2, partial(self._add_days, -1)),
            "datediff": (2, 2, self._datediff),
            **{name: (1, 1, partial(self._field, name)) for name in _PARTS},
            "to_date": (1, 2, moment(DATE)),
            "to_timestamp": (1, 2, moment(TIMESTAMP)),
            **dict.fromkeys(("current_timestamp", "now"), (0, 0, now(TIMESTAMP))),
            "current_date": (0, 0, now(DATE)),
            "size": (1, 1, self._size),
            "array_contains": (2, 2, self._array_contains),
        }

    def call(self, name: str, given: list[Node], at: int) -> Node:
        """Return the node of a call; PredicateError for wrong arguments."""
        least, most, build = self._calls[name]
        if not least <= len(given) <= most:
            self._make.wrong(f"{FUNCTIONS[name].form.strip('`')} takes {_counted(least, most)}", at)
        return build(given, at)

    # --- text ---

    def _recase(self, name: str, given: list[Node], at: int) -> Node:
        inputs: tuple[Node, ...] = (self._make.as_text(given[0]),)
        if inputs[0].op in _CASE:
            # As Spark does, except for constants: lower(upper('ß')) is 'ss' for them.
            inputs = inputs[0].inputs
            self.recased |= inputs[0].columns()
        return self._make.made(name, STRING, inputs, at)

    def _of_texts(self, name: str, kind: SqlType, given: list[Node], at: int) -> Node:
        return self._make.made(name, kind, tuple(map(self._make.as_text, given)), at)

    def _substring(self, given: list[Node], at: int) -> Node:
        text, *numbers = given
        counts = [self._as_int(each) for each in numbers]
        return self._make.made("substring", STRING, (self._make.as_text(text), *counts), at)

    def _as_int(self, node: Node) -> Node:
        if node.type in {TINYINT, SMALLINT, VOID}:
            return self._make.cast(node, INT)
        if node.type is not INT:
            self._make.wrong(f"an INT belongs here, and this is {node.type}", node.position)
        return node

    def trimmed(self, name: str, given: list[Node], at: int) -> Node:
        """Return a text without some characters at its ends."""
        return self._of_texts(name, STRING, given, at)

    def _regular(self, given: list[Node], at: int) -> Node:
        return regular(self._make, given[0], given[1], at)

    def _concat(self, given: list[Node], at: int) -> Node:
        return concatenated(self._make, given, at)

    # --- choices ---

    def chosen(self, conditions: Sequence[Node], results: Sequence[Node], at: int) -> Node:
        """Return CASE: the result of the first condition that is true, or the last result."""
        met = self._make.met(list(results), at)
        if met[0].type is VOID:
            met = [literal(None, STRING, at) for _ in met]
        kept: list[tuple[Node, Node]] = []
        default = met[-1]
        for condition, result in zip(conditions, met, strict=False):
            if condition.is_literal and condition.detail is not True:
                continue
            if condition.is_literal:
                default = result
                break
            kept.append((condition, result))
        if not kept:
            return default
        inputs = (*(each for each, _ in kept), *(each for _, each in kept), default)
        return self._make.made("case", default.type, inputs, at)

    def _if(self, given: list[Node], at: int) -> Node:
        return self.chosen([self._make.as_boolean(given[0])], given[1:], at)

    def _coalesce(self, given: list[Node], at: int) -> Node:
        met = self._make.met(given, at)
        kept: list[Node] = []
        for each in met:
            if is_null(each):
                continue
            kept.append(each)
            if each.is_literal:
                break
        if not kept:
            return met[0]
        if len(kept) == 1:
            return kept[0]
        return self._make.made("coalesce", kept[0].type, tuple(kept), at)

    def _nullif(self, given: list[Node], at: int) -> Node:
        left, right = given
        if left.type is VARIANT:
            left, right = self._make.meet(left, right, at)
        equal = self._make.compare("eq", left, right, at)
        return self.chosen([equal], [literal(None, left.type, at), left], at)

    # --- numbers ---

    def _as_number(self, node: Node) -> Node:
        node = self._make.typed(node, DOUBLE)
        if node.type is VOID:
            return literal(None, DOUBLE, node.position)
        if not is_number(node.type):
            self._make.wrong(f"a number belongs here, and this is {node.type}", node.position)
        return node

    def _abs(self, given: list[Node], at: int) -> Node:
        value = self._as_number(given[0])
        return self._make.made("abs", value.type, (value,), at)

    def _round(self, given: list[Node], at: int) -> Node:
        value = self._as_number(given[0])
        digits = given[1] if len(given) > 1 else literal(0, INT, at)
        if digits.type is not INT or not digits.is_literal or not 0 <= digits.detail <= DIGITS_MAX:
            self._make.refuse(
                f"round takes its digits as a number from 0 to {DIGITS_MAX}", digits.position
            )
        if value.type in INTEGERS:
            return value
        if value.type is FLOAT:
            self._make.refuse("a FLOAT is rounded as a DOUBLE, write CAST(… AS DOUBLE)", at)
        kind = value.type
        if is_decimal(kind):
            scale = min(kind.scale, digits.detail)
            kind = decimal(min(kind.precision - kind.scale + 1 + scale, DIGITS_MAX), scale)
            if kind.precision - kind.scale <= value.type.precision - value.type.scale:
                self._make.refuse("the result may need too many digits, cast to fewer first", at)
            return self._make.made("round", kind, (value,), at, scale)
        return self._make.made("round", kind, (value,), at, digits.detail)

    def _whole(self, name: str, given: list[Node], at: int) -> Node:
        value = self._as_number(given[0])
        if value.type in INTEGERS:
            return self._make.cast(value, BIGINT)
        if is_decimal(value.type):
            digits = value.type.precision - value.type.scale + 1
            if digits > DIGITS_MAX:
                self._make.refuse("the result may need too many digits, cast to fewer first", at)
            return self._make.made(name, decimal(digits, 0), (value,), at)
        return self._make.made(name, BIGINT, (self._make.cast(value, DOUBLE),), at, fails=True)

    def _mod(self, given: list[Node], at: int) -> Node:
        return self._make.calculated("mod", given[0], given[1], at)

    # --- dates and times ---

    def _as_moment(self, node: Node, kind: SqlType) -> Node:
        """Return a DATE or a TIMESTAMP, also from a quoted text."""
        node = self._make.typed(node, kind)
        if node.type is VOID or (node.type is STRING and node.is_literal):
            return self._make.cast(node, kind)
        if node.type is not kind:
            self._make.wrong(
                f"a {kind} belongs here, and this is {node.type}, use CAST", node.position
            )
        return node

    def _trunc(self, given: list[Node], at: int) -> Node:
        unit, value = given
        name = unit.detail.lower() if unit.is_literal and unit.type is STRING else None
        if name not in TRUNCATED:
            self._make.refuse(f"date_trunc takes one of {', '.join(TRUNCATED)}", unit.position)
        if value.type is DATE:
            value = self._make.cast(value, TIMESTAMP)
        return self._make.made(
            "date_trunc", TIMESTAMP, (self._as_moment(value, TIMESTAMP),), at, name
        )

    def _add_days(self, sign: int, given: list[Node], at: int) -> Node:
        day, count = self._as_moment(given[0], DATE), self._as_int(given[1])
        if sign < 0:
            if not count.is_literal:
                self._make.refuse("date_sub takes a number that is written out", count.position)
            count = literal(None if count.detail is None else -count.detail, INT, at)
        return self._make.made("add_days", DATE, (day, count), at)

    def _datediff(self, given: list[Node], at: int) -> Node:
        days = tuple(self._as_moment(each, DATE) for each in given)
        return self._make.made("datediff", INT, days, at)

    def extracted(self, field: str, value: Node, at: int) -> Node:
        """Return a part of a date or a time."""
        if field not in EXTRACTED:
            self._make.refuse(f"extract takes one of {', '.join(EXTRACTED)}", at)
        kind = DECIMAL_SECONDS if field == "second" else INT
        return self._part(field, kind, value, at)

    def _part(self, field: str, kind: SqlType, value: Node, at: int) -> Node:
        if value.type is DATE and field in _OF_DAY:
            value = self._make.cast(value, TIMESTAMP)
        elif value.type not in {DATE, TIMESTAMP, TIMESTAMP_NTZ}:
            value = self._as_moment(value, TIMESTAMP)
        return self._make.made("extract", kind, (value,), at, field)

    def _field(self, field: str, given: list[Node], at: int) -> Node:
        return self._part(field, INT, given[0], at)

    def _to_moment(self, kind: SqlType, given: list[Node], at: int) -> Node:
        if len(given) > 1:
            self._make.refuse(
                "formats are not part of the dialect; texts like 2026-01-31T12:00:00Z are taken",
                given[1].position,
            )
        value = given[0]
        if value.type is STRING and not value.is_literal:
            return self._make.explicitly(value, kind, "cast")
        if value.type is VARIANT:
            return self._make.cast(value, kind)
        if value.type not in {STRING, DATE, TIMESTAMP, VOID}:
            self._make.wrong(f"a STRING belongs here, and this is {value.type}", at)
        return self._make.cast(value, kind)

    def _now(self, kind: SqlType, _: list[Node], at: int) -> Node:
        value = self._now_us if kind is TIMESTAMP else self._now_us // _DAY_US
        self._make.bound[at] = kind
        return literal(value, kind, at)

    # --- arrays and maps ---

    def _size(self, given: list[Node], at: int) -> Node:
        if not is_nested(given[0].type):
            self._make.wrong(
                f"size is for arrays and maps, and this is {given[0].type}{_hint(given[0])}", at
            )
        return self._make.made("size", INT, (given[0],), at)

    def _array_contains(self, given: list[Node], at: int) -> Node:
        array, wanted = given
        if array.type.name != "array":
            self._make.wrong(
                f"array_contains looks into an array, and this is {array.type}{_hint(array)}", at
            )
        (inner,) = array.type.inner
        if self._make.common(inner, wanted.type, wanted.position) != inner or wanted.type is VOID:
            self._make.refuse(f"this array is one of {inner}, use CAST", wanted.position)
        return self._make.made(
            "array_contains", BOOLEAN, (array, self._make.cast(wanted, inner)), at
        )


def _hint(node: Node) -> str:
    return "; of JSON name one position, as in payload.a[0]" if node.type is VARIANT else ""


def concatenated(make: Builder, given: list[Node], at: int) -> Node:
    """Return the concatenation of texts; integers, decimals and booleans become text."""
    texts: list[Node] = []
    for each in given:
        if each.type in _TEXTUAL or is_decimal(each.type):
            texts.append(make.cast(each, STRING))
        else:
            texts.append(make.as_text(each))
    if len(texts) == 1:
        return texts[0]
    flat = [inner for each in texts for inner in (each.inputs if each.op == "concat" else (each,))]
    return make.made("concat", STRING, tuple(flat), at)


def regular(make: Builder, value: Node, pattern: Node, at: int) -> Node:
    """Return whether a regular expression is found in a text."""
    value = make.as_text(value)
    if not pattern.is_literal or pattern.type not in {STRING, VOID}:
        make.refuse("a regular expression is a text in quotes", pattern.position)
    if pattern.detail is None:
        return literal(None, BOOLEAN, at)
    try:
        translated = for_re2(pattern.detail)
    except Refused as error:
        make.refuse(f"this pattern is not taken: {error}", pattern.position)
    return make.made("rlike", BOOLEAN, (value,), at, translated)


def _counted(least: int, most: int) -> str:
    if least == most:
        return f"{least} value{'s' * (least != 1)}"
    return f"{least} or more values" if most == _MANY else f"{least} to {most} values"
