"""Converts sqlglot's tree to ours, with resolved columns, types and explicit casts."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from strandline.predicates.building import Builder, FailingConstantError
from strandline.predicates.columns import KnownColumns
from strandline.predicates.dialect import CASTS
from strandline.predicates.digits import number_of
from strandline.predicates.errors import PredicateError
from strandline.predicates.functions import Calling, concatenated, regular
from strandline.predicates.letter_case import lowered, survives_recasing
from strandline.predicates.node import Node, literal
from strandline.predicates.pattern import pieces
from strandline.predicates.reading import Read, is_unknown, position_of, read
from strandline.predicates.spans import Interval, interval_of, moved
from strandline.predicates.sql_type import (
    BIGINT,
    BOOLEAN,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VARIANT,
    VOID,
    SqlType,
    decimal,
    is_number,
)
from strandline.predicates.texts import unquoted

_COMPARE: Final[Mapping[type[exp.Expression], str]] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_ARITHMETIC: Final[Mapping[type[exp.Expression], str]] = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.Mod: "mod",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
}
_TARGETS: Final = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": STRING,
    "DATE": DATE,
    "TIMESTAMPTZ": TIMESTAMP,
}
_WITHOUT_PARENTHESES: Final = frozenset({"current_timestamp", "current_date"})


class CheckedPredicate:
    """A checked predicate: its tree, and its paths into JSON."""

    def __init__(self, node: Node, builder: Builder, found: Read) -> None:
        self.node = node
        self.looked: Final = builder.looked
        self.bound: Final = builder.bound
        self.renamed: Final = builder.renamed
        self.places: Final = found.places


def check(text: str, schema: pa.Schema, now_us: int) -> CheckedPredicate:
    """Return a predicate on columns of this schema, `current_timestamp` being `now_us`."""
    found = read(text)
    checker = _Checker(text, schema, found, now_us)
    try:
        return CheckedPredicate(checker.check(found.tree), checker.builder, found)
    except FailingConstantError as error:
        raise PredicateError(str(error), position=error.position, text=text) from error


class _Checker:
    """Checks one predicate against the columns of one schema."""

    def __init__(self, text: str, schema: pa.Schema, found: Read, now_us: int) -> None:
        self._text = text
        self._places = found.places
        self.builder = self._make = Builder(text)
        self._columns = KnownColumns(schema, self._make)
        self._calling = Calling(self._make, now_us)
        self._checks: dict[type[exp.Expression], Callable[[Any, int], Node]] = {
            exp.Paren: self._paren,
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Boolean: self._boolean,
            exp.Null: self._null,
            exp.And: self._chain,
            exp.Or: self._chain,
            exp.Not: self._not,
            exp.Is: self._is,
            exp.NullSafeEQ: self._same,
            exp.NullSafeNEQ: self._same,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Like: self._like,
            exp.ILike: self._like,
            exp.RegexpLike: self._rlike,
            exp.Escape: self._escape,
            exp.Neg: self._minus,
            exp.BitwiseNot: self._flipped,
            exp.DPipe: self._concatenated,
            exp.Case: self._case,
            exp.Cast: self._explicit_cast,
            exp.TryCast: self._explicit_cast,
            exp.Anonymous: self._call,
            exp.Trim: self._trim,
            exp.Extract: self._extract,
            exp.Interval: self._lone_interval,
        }

    def check(self, tree: exp.Expression) -> Node:
        """Return the predicate as a tree of ours, with a boolean result."""
        found = self._make.typed(self._node(tree), BOOLEAN)
        if found.type is not BOOLEAN:
            self._make.wrong(f"a predicate is a BOOLEAN, and this is {found.type}", found.position)
        self._check_recased(found)
        return found

    def _check_recased(self, found: Node) -> None:
        """Refuse forms for which Spark uses the column in one place and its value in another."""
        for each in found.walk():
            if each.op != "eq" or not each.inputs[1].is_literal:
                continue
            column, value = each.inputs
            if column.detail in self._calling.recased and not survives_recasing(value.detail):
                self._make.refuse(
                    "nested lower and upper must not stand next to an equality of the same column "
                    "with a text whose letters change in number or form",
                    value.position,
                )

    def _node(self, tree: exp.Expression) -> Node:
        at = position_of(tree)
        kind = type(tree)
        if kind in _COMPARE:
            return self._make.compare(_COMPARE[kind], *self._pair(tree), at)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], tree, at)
        check = self._checks.get(kind)
        if check is None:
            self._make.refuse("this form is not part of the dialect", at)
        return check(tree, at)

    def _nodes(self, trees: list[exp.Expression]) -> list[Node]:
        return [self._node(each) for each in trees]

    def _pair(self, tree: exp.Expression) -> tuple[Node, Node]:
        return self._node(tree.args["this"]), self._node(tree.args["expression"])

    # --- leaves ---

    def _paren(self, tree: exp.Expression, _: int) -> Node:
        return self._node(tree.args["this"])

    def _column(self, tree: exp.Expression, at: int) -> Node:
        if tree.args.get("table") or not isinstance(tree.args["this"], exp.Identifier):
            self._make.refuse("* is no column", at)
        place = self._places.get(at)
        name = tree.args["this"].name
        if name.lower() in _WITHOUT_PARENTHESES and not tree.args["this"].args.get("quoted"):
            return self._calling.call(name.lower(), [], at)
        return self._columns.node(name, at) if place is None else self._columns.at(place)

    def _literal(self, tree: exp.Expression, at: int) -> Node:
        if not tree.args.get("is_string"):
            return self._number(tree.name, at)
        raw = self._text[tree.meta["start"] : tree.meta["end"] + 1]
        try:
            return literal(unquoted(raw), STRING, at)
        except ValueError as error:
            self._make.refuse(str(error), at)

    def _number(self, digits: str, at: int, sign: str = "") -> Node:
        found = number_of(sign, digits)
        if found is None:
            self._make.wrong("this number is not written as the dialect has it, or too large", at)
        value, kind = found
        return literal(value, kind, at)

    def _boolean(self, tree: exp.Expression, at: int) -> Node:
        return literal(bool(tree.args["this"]), BOOLEAN, at)

    def _null(self, _: exp.Expression, at: int) -> Node:
        return literal(None, VOID, at)

    # --- logic ---

    def _chain(self, tree: exp.Expression, at: int) -> Node:
        op = "and" if isinstance(tree, exp.And) else "or"
        parts: list[Node] = []
        failing: list[FailingConstantError] = []
        rest: list[exp.Expression] = [tree]
        while rest:
            part = rest.pop()
            if type(part) is type(tree):
                rest += [part.args["expression"], part.args["this"]]
                continue
            try:
                parts.append(self._make.as_boolean(self._node(part)))
            except FailingConstantError as error:
                failing.append(error)
        if failing:
            if any(part.is_literal and part.detail is not (op == "and") for part in parts):
                self._make.refuse("Spark may leave out this, which fails", failing[0].position)
            raise failing[0]
        return self._make.joined(op, parts, at)

    def _not(self, tree: exp.Expression, at: int) -> Node:
        return self._make.negated(self._make.as_boolean(self._node(tree.args["this"])), at)

    def _is(self, tree: exp.Expression, at: int) -> Node:
        what = tree.args["expression"]
        try:
            tested = self._node(tree.args["this"])
        except FailingConstantError as error:
            if isinstance(what, exp.Null):
                # Spark knows that this is not NULL without computing it.
                self._make.refuse("Spark may leave out this, which fails", error.position)
            raise
        if is_unknown(what, self._text):
            if tested.type not in {BOOLEAN, VOID} and not tested.columns():
                self._make.refuse("IS UNKNOWN is for a BOOLEAN, write IS NULL", at)
            what = exp.Null()
        if isinstance(what, exp.Null):
            return self._make.tested_null(tested, at)
        if not isinstance(what, exp.Boolean):
            self._make.refuse("IS is followed by NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM", at)
        op = "is_true" if what.args["this"] else "is_false"
        return self._make.made(op, BOOLEAN, (self._make.as_boolean(tested),), at)

    def _case(self, tree: exp.Expression, at: int) -> Node:
        compared = tree.args.get("this")
        value = None if compared is None else self._node(compared)
        conditions: list[Node] = []
        results: list[Node] = []
        for branch in tree.args["ifs"]:
            tested = self._node(branch.args["this"])
            if value is not None:
                tested = self._make.compare("eq", value, tested, at)
            conditions.append(self._make.as_boolean(tested))
            results.append(self._node(branch.args["true"]))
        default = tree.args.get("default")
        results.append(literal(None, VOID, at) if default is None else self._node(default))
        return self._calling.chosen(conditions, results, at)

    # --- comparing ---

    def _same(self, tree: exp.Expression, at: int) -> Node:
        found = self._make.same(*self._pair(tree), at)
        return self._make.negated(found, at) if isinstance(tree, exp.NullSafeNEQ) else found

    def _between(self, tree: exp.Expression, at: int) -> Node:
        value, low, high = (self._node(tree.args[name]) for name in ("this", "low", "high"))
        parts = [
            self._make.compare("ge", value, low, at),
            self._make.compare("le", value, high, at),
        ]
        return self._make.joined("and", parts, at)

    def _in(self, tree: exp.Expression, at: int) -> Node:
        choices = tree.args.get("expressions") or []
        if not choices:
            self._make.wrong("IN is followed by at least one value", at)
        value, others = self._node(tree.args["this"]), self._nodes(choices)
        if any(each.type is VARIANT for each in others):
            self._make.refuse("the values of IN are not looked up in JSON, use OR", at)
        kind = value.type if value.type is not VARIANT else others[0].type
        for each in others:
            if (kind is STRING) is not (each.type is STRING) and VOID not in {kind, each.type}:
                self._make.refuse("the values of IN must be all text, or none", each.position)
            self._make.check_reach(each, value)
            kind = self._make.common(kind, each.type, each.position)
        value, *others = self._make.met([value, *others], at)
        if all(each.is_literal for each in others) and value.type is not VOID:
            return self._make.made("in", BOOLEAN, (value, *others), at)
        compared = [self._make.compare("eq", value, each, at) for each in others]
        # A single value stays an OR: Spark derives conditions on columns from =, but not from IN.
        return self._make.joined("or", compared * 2 if len(compared) == 1 else compared, at)

    def _like(self, tree: exp.Expression, at: int, escape: str = "\\") -> Node:
        value, pattern = self._make.as_text(self._node(tree.args["this"])), tree.args["expression"]
        is_negated = bool(tree.args.get("negate"))
        if isinstance(tree, exp.ILike):
            value = self._calling.call("lower", [value], at)
        if isinstance(pattern, exp.Any | exp.All):
            inner = pattern.args["this"]
            many = inner.args["expressions"] if isinstance(inner, exp.Tuple) else [inner]
            found = [self._matched(tree, value, each, escape, at) for each in many]
            op = "or" if isinstance(pattern, exp.Any) else "and"
            if is_negated:
                found = [self._make.negated(each, at) for each in found]
            return self._make.joined(op, found, at)
        matched = self._matched(tree, value, pattern, escape, at)
        return self._make.negated(matched, at) if is_negated else matched

    def _matched(
        self, tree: exp.Expression, value: Node, pattern: exp.Expression, escape: str, at: int
    ) -> Node:
        wanted = self._node(pattern)
        if not wanted.is_literal or wanted.type not in {STRING, VOID}:
            self._make.refuse(
                "a pattern is a text in quotes; contains, startswith and endswith take any text",
                wanted.position,
            )
        if wanted.detail is None:
            return literal(None, BOOLEAN, at)
        is_lowered = isinstance(tree, exp.ILike)
        try:
            parts = pieces(lowered(wanted.detail) if is_lowered else wanted.detail, escape)
        except ValueError as error:
            self._make.wrong(str(error), wanted.position)
        return self._make.made("like", BOOLEAN, (value,), at, parts)

    def _escape(self, tree: exp.Expression, at: int) -> Node:
        inner, escape = tree.args["this"], self._node(tree.args["expression"])
        if escape.type is not STRING or not escape.is_literal:
            self._make.refuse("an escape is one character in quotes", escape.position)
        negated = isinstance(inner, exp.Not)
        like = inner.args["this"] if negated else inner
        if not isinstance(like, exp.Like | exp.ILike):
            self._make.refuse("ESCAPE belongs to LIKE", at)
        if isinstance(like.args["expression"], exp.Any | exp.All):
            self._make.refuse("LIKE ANY and LIKE ALL have no ESCAPE, use OR or AND", at)
        if isinstance(like, exp.ILike) and lowered(escape.detail) != escape.detail:
            self._make.refuse("the escape of ILIKE is no letter in upper case", escape.position)
        found = self._like(like, at, escape.detail)
        return self._make.negated(found, at) if negated else found

    def _rlike(self, tree: exp.Expression, at: int) -> Node:
        return regular(self._make, *self._pair(tree), at)

    # --- calculating ---

    def _arithmetic(self, op: str, tree: exp.Expression, at: int) -> Node:
        left, right = tree.args["this"], tree.args["expression"]
        if op in {"add", "sub"} and isinstance(right, exp.Interval):
            return moved(self._make, self._node(left), self._interval(right), op, at)
        if op == "add" and isinstance(left, exp.Interval):
            return moved(self._make, self._node(right), self._interval(left), op, at)
        return self._make.calculated(op, *self._pair(tree), at)

    def _lone_interval(self, _: exp.Expression, at: int) -> Node:
        self._make.refuse("an INTERVAL is added to a DATE or a TIMESTAMP, or taken from one", at)

    def _interval(self, tree: exp.Expression) -> Interval:
        return interval_of(self._make, tree, position_of(tree))

    def _minus(self, tree: exp.Expression, at: int) -> Node:
        inner = tree.args["this"]
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            return self._number(inner.name, at, "-")
        value = self._make.typed(self._node(inner), DOUBLE)
        if value.type is VOID or not is_number(value.type):
            self._make.wrong(f"a number belongs here, and this is {value.type}", at)
        return self._make.made("neg", value.type, (value,), at)

    def _flipped(self, tree: exp.Expression, at: int) -> Node:
        value = self._node(tree.args["this"])
        if value.type not in INTEGERS:
            self._make.wrong(f"~ is for integers, and this is {value.type}", at)
        return self._make.made("bit_not", value.type, (value,), at)

    def _concatenated(self, tree: exp.Expression, at: int) -> Node:
        return concatenated(self._make, list(self._pair(tree)), at)

    # --- functions ---

    def _call(self, tree: exp.Expression, at: int) -> Node:
        given = self._nodes(tree.args.get("expressions") or [])
        return self._calling.call(tree.name.lower(), given, at)

    def _trim(self, tree: exp.Expression, at: int) -> Node:
        if tree.args.get("collation"):
            self._make.refuse("a text is trimmed without a collation", at)
        value, removed = tree.args["this"], tree.args.get("expression")
        names = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
        given = self._nodes([value] if removed is None else [value, removed])
        return self._calling.trimmed(names[(tree.args.get("position") or "").upper()], given, at)

    def _extract(self, tree: exp.Expression, at: int) -> Node:
        return self._calling.extracted(
            tree.args["this"].name.lower(), self._node(tree.args["expression"]), at
        )

    def _explicit_cast(self, tree: exp.Expression, at: int) -> Node:
        value, target = self._node(tree.args["this"]), self._target(tree.args["to"], at)
        op = "try_cast" if tree.args.get("safe") else "cast"
        if value.type is VARIANT:
            return self._make.cast(value, target, op)
        if target in {DATE, TIMESTAMP} and value.type is STRING and value.is_literal:
            return self._make.moment(value, target)
        if value.type is not VOID and target.name not in CASTS.get(value.type.name, ()):
            known = ", ".join(CASTS.get(value.type.name, ())).upper()
            self._make.refuse(
                f"{value.type} is not cast to {target}" + (f", but to {known}" * bool(known)), at
            )
        if value.type is VOID or value.type == target:
            return self._make.cast(value, target, op)
        return self._make.explicitly(value, target, op)

    def _target(self, to: exp.Expression, at: int) -> SqlType:
        name = to.args["this"].name
        numbers = [int(each.name) for each in to.args.get("expressions") or ()]
        if name == "DECIMAL":
            precision, scale = (*numbers, *((10, 0)[len(numbers) :]))
            if not 0 <= scale <= precision <= DIGITS_MAX or precision == 0:
                self._make.wrong(f"a DECIMAL has 1 to {DIGITS_MAX} digits", at)
            return decimal(precision, scale)
        return _TARGETS[name]
