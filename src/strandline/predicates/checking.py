"""From sqlglot's tree to ours: every column known, every type agreed, every cast written out."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

import pyarrow as pa
from sqlglot import exp

from strandline.predicates import casting
from strandline.predicates.coercion import Mismatch, common_type, result_type
from strandline.predicates.dialect import CASTS, FUNCTIONS
from strandline.predicates.digits import holds, number_of
from strandline.predicates.errors import PredicateError, UnsupportedPredicateError
from strandline.predicates.letter_case import survives_recasing
from strandline.predicates.node import Node, literal
from strandline.predicates.order import MAY_BE_NULL, STRICT
from strandline.predicates.pattern import pieces
from strandline.predicates.program import constant
from strandline.predicates.reading import is_unknown, position_of, read
from strandline.predicates.sql_type import (
    BIGINT,
    BOOLEAN,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    MAP,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    SqlType,
    decimal,
    is_decimal,
    is_number,
    sql_type,
)
from strandline.predicates.texts import days_of, microseconds_of, unquoted

_COMPARE: Final[Mapping[type[exp.Expression], str]] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_MIRRORED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_ARITHMETIC: Final[Mapping[type[exp.Expression], str]] = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.Mod: "mod",
}
_FUNCTION_NAMES: Final[Mapping[type[exp.Expression], str]] = {
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.StartsWith: "startswith",
    exp.EndsWith: "endswith",
}
_CASE: Final = frozenset({"lower", "upper"})
_TEMPORAL: Final = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
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


def check(text: str, schema: pa.Schema) -> Node:
    """Return the tree of a predicate on columns of this schema."""
    try:
        return _Checker(text, schema).check(read(text))
    except _FailingConstantError as error:
        raise PredicateError(str(error), position=error.position, text=text) from error


class _FailingConstantError(Exception):
    """A constant part fails; it may be that the result does not depend on it."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


class _Checker:
    """Checks one predicate against the columns of one schema."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._columns: dict[str, list[str]] = {}
        #: Columns in which one change of case is left of two.
        self._recased: set[str] = set()
        for name in schema.names:
            self._columns.setdefault(name.lower(), []).append(name)
        self._checks: dict[type[exp.Expression], Callable[[Any, int], Node]] = {
            exp.Paren: self._paren,
            exp.Column: self._column,
            exp.Bracket: self._lookup,
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
            exp.Escape: self._escape,
            exp.Neg: self._minus,
            exp.Cast: self._explicit_cast,
            exp.TryCast: self._explicit_cast,
            **dict.fromkeys(_FUNCTION_NAMES, self._function),
        }

    def check(self, tree: exp.Expression) -> Node:
        """Return the whole as a tree of ours, which gives a boolean."""
        found = self._node(tree)
        if found.type is not BOOLEAN:
            self._wrong(f"a predicate is a BOOLEAN, and this is {found.type}", found.position)
        self._check_recased(found)
        return found

    def _check_recased(self, found: Node) -> None:
        """Refuse what Spark computes with the column in one place and its value in another."""
        for each in found.walk():
            if each.op != "eq" or not each.inputs[1].is_literal:
                continue
            column, value = each.inputs
            if column.detail in self._recased and not survives_recasing(value.detail):
                self._refuse(
                    "lower and upper in each other stand beside no equality of the same column "
                    "with a text whose letters change in number or form",
                    value.position,
                )

    def _node(self, tree: exp.Expression) -> Node:
        at = position_of(tree)
        kind = type(tree)
        if kind in _COMPARE:
            return self._compare(_COMPARE[kind], *self._pair(tree), at)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], *self._pair(tree), at)
        check = self._checks.get(kind)
        if check is None:
            self._refuse("this form is not part of the dialect", at)
        return check(tree, at)

    def _pair(self, tree: exp.Expression) -> tuple[Node, Node]:
        return self._node(tree.args["this"]), self._node(tree.args["expression"])

    # --- leaves ---

    def _paren(self, tree: exp.Expression, _: int) -> Node:
        return self._node(tree.args["this"])

    def _column(self, tree: exp.Expression, at: int) -> Node:
        if tree.args.get("table") or not isinstance(tree.args["this"], exp.Identifier):
            self._refuse("a column has no dots, and * is none", at)
        name = tree.args["this"].name
        found = self._columns.get(name.lower(), [])
        if not found:
            known = ", ".join(self._schema.names[:10])
            self._wrong(f"there is no column {name}, there are: {known}", at)
        if len(found) > 1:
            self._wrong(f"{name} may be any of the columns {', '.join(found)}", at)
        return Node("column", sql_type(self._schema.field(found[0]).type), (), found[0], at)

    def _lookup(self, tree: exp.Expression, at: int) -> Node:
        looked = self._node(tree.args["this"])
        keys = tree.args["expressions"]
        if looked.type is not MAP or len(keys) != 1:
            self._refuse("only a map of text to text is looked into, such as headers", at)
        key = self._node(keys[0])
        if key.type is not STRING or not key.is_literal:
            self._refuse("the key of a map is a text in quotes", key.position)
        return Node("lookup", STRING, (looked,), key.detail, at)

    def _literal(self, tree: exp.Expression, at: int) -> Node:
        if not tree.args.get("is_string"):
            return self._number(tree.name, at)
        raw = self._text[tree.meta["start"] : tree.meta["end"] + 1]
        try:
            return literal(unquoted(raw), STRING, at)
        except ValueError as error:
            self._refuse(str(error), at)

    def _number(self, digits: str, at: int, sign: str = "") -> Node:
        found = number_of(sign, digits)
        if found is None:
            self._wrong("this number is not written as the dialect has it, or too large", at)
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
        failing: list[_FailingConstantError] = []
        rest: list[exp.Expression] = [tree]
        while rest:
            part = rest.pop()
            if type(part) is type(tree):
                rest += [part.args["expression"], part.args["this"]]
                continue
            try:
                parts.append(self._as_boolean(self._node(part)))
            except _FailingConstantError as error:
                failing.append(error)
        if failing:
            if any(part.is_literal and part.detail is not (op == "and") for part in parts):
                self._refuse("Spark may leave out this, which fails", failing[0].position)
            raise failing[0]
        return self._joined(op, parts, at)

    def _joined(self, op: str, parts: list[Node], at: int) -> Node:
        deciding = op == "or"
        flat: list[Node] = []
        for part in parts:
            flat += part.inputs if part.op == op else (part,)
        if any(part.is_literal and part.detail is deciding for part in flat):
            self._check_dropped(flat)
            return literal(deciding, BOOLEAN, at)
        kept = [part for part in flat if not part.is_literal]
        kept += [part for part in flat if part.is_literal and part.detail is None][:1]
        if not kept:
            return literal(not deciding, BOOLEAN, at)
        if len(kept) == 1:
            return kept[0]
        return self._made(op, BOOLEAN, tuple(kept), at)

    def _not(self, tree: exp.Expression, at: int) -> Node:
        return self._negated(self._as_boolean(self._node(tree.args["this"])), at)

    def _negated(self, node: Node, at: int) -> Node:
        return self._made("not", BOOLEAN, (node,), at)

    def _is(self, tree: exp.Expression, at: int) -> Node:
        tested, what = self._node(tree.args["this"]), tree.args["expression"]
        if is_unknown(what, self._text):
            if tested.type not in {BOOLEAN, VOID} and not tested.columns():
                self._refuse("IS UNKNOWN is for a BOOLEAN, write IS NULL", at)
            what = exp.Null()
        if isinstance(what, exp.Null):
            return self._made("is_null", BOOLEAN, (tested,), at)
        if not isinstance(what, exp.Boolean):
            self._refuse("IS is followed by NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM", at)
        op = "is_true" if what.args["this"] else "is_false"
        return self._made(op, BOOLEAN, (self._as_boolean(tested),), at)

    def _as_boolean(self, node: Node) -> Node:
        if node.type is VOID:
            return literal(None, BOOLEAN, node.position)
        if node.type is not BOOLEAN:
            self._wrong(f"a BOOLEAN belongs here, and this is {node.type}", node.position)
        return node

    # --- comparing ---

    def _compare(self, op: str, left: Node, right: Node, at: int) -> Node:
        self._check_reach(left, right)
        self._check_reach(right, left)
        left, right = self._meet(left, right, at)
        if left.is_literal:
            op, left, right = _MIRRORED[op], right, left
        return self._made(op, BOOLEAN, (left, right), at)

    def _check_reach(self, value: Node, other: Node) -> None:
        """Refuse what Spark 4.3 answers with TRUE for NULL, too."""
        if not (value.is_literal and is_decimal(value.type) and other.type in INTEGERS):
            return
        if value.detail is not None and not holds(other.type, value.detail):
            self._refuse(f"{other.type} cannot hold a number like this", value.position)

    def _same(self, tree: exp.Expression, at: int) -> Node:
        left, right = self._meet(*self._pair(tree), at)
        equal = self._made("is_true", BOOLEAN, (self._compare("eq", left, right, at),), at)
        nulls = [self._made("is_null", BOOLEAN, (each,), at) for each in (left, right)]
        found = self._joined("or", [equal, self._joined("and", nulls, at)], at)
        return self._negated(found, at) if isinstance(tree, exp.NullSafeNEQ) else found

    def _between(self, tree: exp.Expression, at: int) -> Node:
        value, low, high = (self._node(tree.args[name]) for name in ("this", "low", "high"))
        parts = [self._compare("ge", value, low, at), self._compare("le", value, high, at)]
        return self._joined("and", parts, at)

    def _in(self, tree: exp.Expression, at: int) -> Node:
        choices = tree.args.get("expressions") or []
        if not choices:
            self._wrong("IN is followed by at least one value", at)
        value, *others = self._node(tree.args["this"]), *map(self._node, choices)
        kind = value.type
        for each in others:
            if (kind is STRING) is not (each.type is STRING) and VOID not in {kind, each.type}:
                self._refuse("the values of IN are all text, or none of them is", each.position)
            self._check_reach(each, value)
            kind = self._common(kind, each.type, each.position)
        value, *others = (self._cast(each, kind) for each in (value, *others))
        if all(each.is_literal for each in others) and kind is not VOID:
            return self._made("in", BOOLEAN, (value, *others), at)
        return self._joined("or", [self._compare("eq", value, each, at) for each in others], at)

    def _like(self, tree: exp.Expression, at: int, escape: str = "\\") -> Node:
        value, pattern = self._pair(tree)
        value = self._as_text(value)
        if not pattern.is_literal or pattern.type not in {STRING, VOID}:
            self._refuse("a pattern is a text in quotes", pattern.position)
        if pattern.detail is None:
            return literal(None, BOOLEAN, at)
        try:
            parts = pieces(pattern.detail, escape)
        except ValueError as error:
            self._wrong(str(error), pattern.position)
        found = self._made("like", BOOLEAN, (value,), at, parts)
        return self._negated(found, at) if tree.args.get("negate") else found

    def _escape(self, tree: exp.Expression, at: int) -> Node:
        inner, escape = tree.args["this"], self._node(tree.args["expression"])
        if escape.type is not STRING or not escape.is_literal:
            self._refuse("an escape is one character in quotes", escape.position)
        negated = isinstance(inner, exp.Not)
        like = inner.args["this"] if negated else inner
        if not isinstance(like, exp.Like):
            self._refuse("ESCAPE belongs to LIKE", at)
        found = self._like(like, at, escape.detail)
        return self._negated(found, at) if negated else found

    # --- calculating ---

    def _arithmetic(self, op: str, left: Node, right: Node, at: int) -> Node:
        try:
            kind, meeting = result_type(op, left, right)
        except Mismatch as error:
            self._mismatch(error, at)
        inputs = tuple(
            each if kept is None else self._cast(each, kept)
            for each, kept in zip((left, right), meeting, strict=True)
        )
        return self._made(op, kind, inputs, at)

    def _minus(self, tree: exp.Expression, at: int) -> Node:
        inner = tree.args["this"]
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            return self._number(inner.name, at, "-")
        value = self._node(inner)
        if value.type is VOID or not is_number(value.type):
            self._wrong(f"a number belongs here, and this is {value.type}", at)
        return self._made("neg", value.type, (value,), at)

    def _function(self, tree: exp.Expression, at: int) -> Node:
        name = _FUNCTION_NAMES[type(tree)]
        texts = [self._node(each) for each in tree.iter_expressions()]
        wanted = FUNCTIONS[name].takes.count("STRING")
        if len(texts) != wanted or any(isinstance(each, list) for each in tree.args.values()):
            self._wrong(f"{name} takes {wanted} text{'s' * (wanted > 1)}", at)
        inputs = tuple(map(self._as_text, texts))
        if name in _CASE and inputs[0].op in _CASE:
            # As Spark does, except for constants: lower(upper('ß')) is 'ss' for them.
            inputs = inputs[0].inputs
            self._recased |= inputs[0].columns()
        kind = {"length": INT, "lower": STRING, "upper": STRING}.get(name, BOOLEAN)
        return self._made(name, kind, inputs, at)

    def _as_text(self, node: Node) -> Node:
        if node.type is VOID:
            return literal(None, STRING, node.position)
        if node.type is not STRING:
            self._wrong(f"a STRING belongs here, and this is {node.type}", node.position)
        return node

    def _explicit_cast(self, tree: exp.Expression, at: int) -> Node:
        value, target = self._node(tree.args["this"]), self._target(tree.args["to"], at)
        op = "try_cast" if tree.args.get("safe") else "cast"
        if target in {DATE, TIMESTAMP} and value.type is STRING and value.is_literal:
            return self._moment(value, target)
        if value.type is not VOID and target.name not in CASTS.get(value.type.name, ()):
            self._refuse(f"{value.type} is not cast to {target}", at)
        return self._cast(value, target, op)

    def _target(self, to: exp.Expression, at: int) -> SqlType:
        name = to.args["this"].name
        numbers = [int(each.name) for each in to.args.get("expressions") or ()]
        if name == "DECIMAL":
            precision, scale = (*numbers, *((10, 0)[len(numbers) :]))
            if not 0 <= scale <= precision <= DIGITS_MAX or precision == 0:
                self._wrong(f"a DECIMAL has 1 to {DIGITS_MAX} digits", at)
            return decimal(precision, scale)
        return _TARGETS[name]

    # --- types that meet ---

    def _meet(self, left: Node, right: Node, at: int) -> tuple[Node, Node]:
        kind = self._common(left.type, right.type, at)
        return self._cast(left, kind), self._cast(right, kind)

    def _common(self, left: SqlType, right: SqlType, at: int) -> SqlType:
        try:
            return common_type(left, right)
        except Mismatch as error:
            self._mismatch(error, at)

    def _cast(self, node: Node, target: SqlType, op: str = "cast") -> Node:
        if node.type == target:
            return node
        if node.detail is None and node.is_literal:
            return literal(None, target, node.position)
        if node.type is STRING and target in _TEMPORAL:
            return self._moment(node, target)
        fails = op == "cast" and casting.can_fail(node.type, target)
        return self._made(op, target, (node,), node.position, fails=fails)

    def _moment(self, node: Node, target: SqlType) -> Node:
        if not node.is_literal:
            self._refuse("only a text in quotes is taken as a date or a time", node.position)
        try:
            if target is DATE:
                return literal(days_of(node.detail), target, node.position)
            value = microseconds_of(node.detail, with_zone=target is TIMESTAMP)
        except ValueError as error:
            self._refuse(str(error), node.position)
        return literal(value, target, node.position)

    def _made(
        self,
        op: str,
        kind: SqlType,
        inputs: tuple[Node, ...],
        at: int,
        detail: Any = None,
        *,
        fails: bool = False,
    ) -> Node:
        """Return the node, or its value if that is known already."""
        if op in STRICT | MAY_BE_NULL and any(_is_null(each) for each in inputs):
            self._check_dropped(inputs)
            return literal(None, kind, at)
        fails = fails or (op in {"add", "sub", "mul", "neg"} and kind.name.endswith("int"))
        fails = fails or (op in {"div", "mod"} and not _is_divisor(inputs[1]))
        fails = fails or any(each.can_fail for each in inputs)
        node = Node(op, kind, inputs, detail, at, fails)
        if op in {"and", "or"} or not all(each.is_literal for each in inputs):
            return node
        try:
            return literal(constant(node), kind, at)
        except pa.ArrowInvalid as error:
            raise _FailingConstantError(f"this fails for every row: {error}", at) from error

    def _check_dropped(self, parts: Iterable[Node]) -> None:
        """Refuse to leave out what can fail: Spark may evaluate it all the same."""
        for part in parts:
            if part.can_fail:
                self._refuse("the result does not depend on this, which can fail", part.position)

    def _mismatch(self, error: Mismatch, at: int) -> NoReturn:
        if error.is_unsupported:
            self._refuse(str(error), at)
        self._wrong(str(error), at)

    def _refuse(self, message: str, at: int) -> NoReturn:
        raise UnsupportedPredicateError(message, position=at, text=self._text)

    def _wrong(self, message: str, at: int) -> NoReturn:
        raise PredicateError(message, position=at, text=self._text)


def _is_divisor(node: Node) -> bool:
    """Whether every number can be divided by it."""
    return node.is_literal and node.detail != 0


def _is_null(node: Node) -> bool:
    return node.is_literal and node.detail is None
