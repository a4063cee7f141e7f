"""Builds nodes: resolves types, adds casts, computes constants."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from strandline.predicates import casting
from strandline.predicates.coercion import Mismatch, common_type, result_type
from strandline.predicates.digits import holds
from strandline.predicates.errors import PredicateError, UnsupportedPredicateError
from strandline.predicates.node import Node, literal
from strandline.predicates.order import MAY_BE_NULL, STRICT
from strandline.predicates.program import constant
from strandline.predicates.sql_type import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    SqlType,
    is_decimal,
    is_number,
)
from strandline.predicates.steps import Path, shown_path
from strandline.predicates.texts import days_of, microseconds_of

_MIRRORED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_TEMPORAL: Final = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
_OVERFLOWING: Final = frozenset({"add", "sub", "mul", "neg", "abs"})
_EXACT_MAX: Final = 2**53


class FailingConstantError(Exception):
    """A constant part fails; the result may not depend on it."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


class Looked(NamedTuple):
    """A value of JSON that a predicate reads, and its type."""

    column: str
    path: Path
    type: SqlType
    is_try: bool


class Builder:
    """Makes the nodes of one predicate."""

    def __init__(self, text: str) -> None:
        self._text = text
        #: The values read from JSON, by their position in the text.
        self.looked: dict[int, Looked] = {}
        #: The uses of the current time, by their position in the text.
        self.bound: dict[int, SqlType] = {}
        #: Columns with another name in Spark, by their position in the text.
        self.renamed: dict[int, str] = {}

    # --- logic ---

    def joined(self, op: str, parts: Sequence[Node], at: int) -> Node:
        """Return the parts joined by `and` or `or`."""
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
        return self.made(op, BOOLEAN, tuple(kept), at)

    def negated(self, node: Node, at: int) -> Node:
        """Return the opposite of a BOOLEAN."""
        return self.made("not", BOOLEAN, (node,), at)

    def tested_null(self, node: Node, at: int) -> Node:
        """Return whether a value is NULL; a value of JSON is NULL if it is missing or null."""
        return self.made("is_null", BOOLEAN, (self.typed(node, STRING),), at)

    # --- comparing ---

    def compare(self, op: str, left: Node, right: Node, at: int) -> Node:
        """Return a comparison of two values with a common type."""
        self.check_reach(left, right)
        self.check_reach(right, left)
        left, right = self.meet(left, right, at)
        if left.is_literal:
            op, left, right = _MIRRORED[op], right, left
        return self.made(op, BOOLEAN, (left, right), at)

    def same(self, left: Node, right: Node, at: int) -> Node:
        """Return whether two values are equal, or both NULL."""
        left, right = self.meet(left, right, at)
        equal = self.made("is_true", BOOLEAN, (self.compare("eq", left, right, at),), at)
        nulls = [self.made("is_null", BOOLEAN, (each,), at) for each in (left, right)]
        return self.joined("or", [equal, self.joined("and", nulls, at)], at)

    def check_reach(self, value: Node, other: Node) -> None:
        """Refuse comparisons that Spark 4.3 evaluates to TRUE for NULL, or that exceed DOUBLE."""
        if not value.is_literal or value.detail is None:
            return
        if other.type is VARIANT and value.type in INTEGERS and abs(value.detail) > _EXACT_MAX:
            self.refuse(
                f"a JSON value is read as DOUBLE, without so many digits; write {self._path(other)}"
                "::BIGINT",
                value.position,
            )
        if (
            is_decimal(value.type)
            and other.type in INTEGERS
            and not holds(other.type, value.detail)
        ):
            self.refuse(f"{other.type} cannot hold a number like this", value.position)

    def calculated(self, op: str, left: Node, right: Node, at: int) -> Node:
        """Return the result of an operation on two numbers."""
        left, right = self.typed(left, DOUBLE), self.typed(right, DOUBLE)
        try:
            kind, meeting = result_type(op, left, right)
        except Mismatch as error:
            self._mismatch(error, at)
        inputs = tuple(
            each if kept is None else self.cast(each, kept)
            for each, kept in zip((left, right), meeting, strict=True)
        )
        return self.made(op, kind, inputs, at)

    # --- types ---

    def as_boolean(self, node: Node) -> Node:
        """Return a BOOLEAN; PredicateError for any other type."""
        node = self.typed(node, BOOLEAN)
        if node.type is VOID:
            return literal(None, BOOLEAN, node.position)
        if node.type is not BOOLEAN:
            self.wrong(f"a BOOLEAN belongs here, and this is {node.type}", node.position)
        return node

    def as_text(self, node: Node) -> Node:
        """Return a STRING; PredicateError for any other type."""
        node = self.typed(node, STRING)
        if node.type is VOID:
            return literal(None, STRING, node.position)
        if node.type is not STRING:
            self.wrong(f"a STRING belongs here, and this is {node.type}, use CAST", node.position)
        return node

    def meet(self, left: Node, right: Node, at: int) -> tuple[Node, Node]:
        """Return the two in the type in which they are compared."""
        found = self.met([left, right], at)
        return found[0], found[1]

    def met(self, nodes: Sequence[Node], at: int) -> list[Node]:
        """Return values in the one type in which they meet."""
        kind = VOID
        for each in nodes:
            if each.type is not VARIANT:
                kind = self.common(kind, each.type, at)
        untyped = next((each for each in nodes if each.type is VARIANT), None)
        if untyped is None:
            return [self.cast(each, kind) for each in nodes]
        if kind is VOID and sum(each.type is VARIANT for each in nodes) > 1:
            self.refuse(
                f"give one of two JSON values a type, as in {self._path(untyped)}::DOUBLE",
                untyped.position,
            )
        wanted = self._looked_as(kind)
        typed = [self.typed(each, wanted) for each in nodes]
        kind = self.common(wanted, kind, at)
        return [self.cast(each, kind) for each in typed]

    def common(self, left: SqlType, right: SqlType, at: int) -> SqlType:
        """Return the type in which values of two types are compared."""
        try:
            return common_type(left, right)
        except Mismatch as error:
            self._mismatch(error, at)

    def typed(self, node: Node, kind: SqlType, *, is_try: bool = True) -> Node:
        """Return a value of JSON converted to a type; any other value unchanged."""
        if node.type is not VARIANT:
            return node
        path: Path = node.detail
        looked = Looked(node.inputs[0].detail, path, kind, is_try)
        if self.looked.setdefault(node.position, looked) != looked:
            before = self.looked[node.position].type
            self.refuse(
                f"this is a {before} in one place and a {kind} in the other, write "
                f"{self._path(node)}::{kind}",
                node.position,
            )
        op = "try_variant_get" if is_try else "variant_get"
        return Node(op, kind, node.inputs, path, node.position, not is_try)

    def cast(self, node: Node, target: SqlType, op: str = "cast") -> Node:
        """Return a value converted to another type."""
        if node.type == target:
            return node
        if node.type is VARIANT:
            return self.typed(node, target, is_try=op == "try_cast")
        if node.detail is None and node.is_literal:
            return literal(None, target, node.position)
        if node.type is STRING and target in _TEMPORAL and node.is_literal:
            return self.moment(node, target)
        if node.type is STRING and target in _TEMPORAL and op == "cast":
            self.refuse(
                f"a text that is no literal is compared with a {target} after a cast, write "
                f"CAST(… AS {target}) or TRY_CAST",
                node.position,
            )
        return self.explicitly(node, target, op)

    def explicitly(self, node: Node, target: SqlType, op: str) -> Node:
        """Return the result of CAST or TRY_CAST."""
        fails = op == "cast" and casting.can_fail(node.type, target)
        return self.made(op, target, (node,), node.position, fails=fails)

    def moment(self, node: Node, target: SqlType) -> Node:
        """Return the date or time of a literal."""
        try:
            if target is DATE:
                return literal(days_of(node.detail), target, node.position)
            value = microseconds_of(node.detail, with_zone=target is TIMESTAMP)
        except ValueError as error:
            self.refuse(str(error), node.position)
        return literal(value, target, node.position)

    def _looked_as(self, kind: SqlType) -> SqlType:
        """Return the type as which a value of JSON is read to be compared with this one."""
        if is_number(kind):
            return DOUBLE
        if kind is VOID:
            return STRING
        return TIMESTAMP if kind is TIMESTAMP_NTZ else kind

    def _path(self, node: Node) -> str:
        return shown_path(node.inputs[0].detail, node.detail)

    # --- all of them ---

    def made(
        self,
        op: str,
        kind: SqlType,
        inputs: tuple[Node, ...],
        at: int,
        detail: Any = None,
        *,
        fails: bool = False,
    ) -> Node:
        """Return the node, or its value if it is constant."""
        if op in STRICT | MAY_BE_NULL and any(is_null(each) for each in inputs):
            self._check_dropped(inputs)
            return literal(None, kind, at)
        fails = fails or (op in _OVERFLOWING and kind in INTEGERS)
        fails = fails or (op in {"div", "mod"} and not is_divisor(inputs[1]))
        fails = fails or any(each.can_fail for each in inputs)
        node = Node(op, kind, inputs, detail, at, fails)
        if op in {"and", "or"} or not all(each.is_literal for each in inputs):
            return node
        try:
            return literal(constant(node), kind, at)
        except pa.ArrowInvalid as error:
            raise FailingConstantError(f"this fails for every row: {error}", at) from error

    def _check_dropped(self, parts: Iterable[Node]) -> None:
        """Refuse to leave out a part that can fail: Spark may evaluate it nevertheless."""
        for part in parts:
            if part.can_fail:
                self.refuse("the result does not depend on this, which can fail", part.position)

    def _mismatch(self, error: Mismatch, at: int) -> NoReturn:
        if error.is_unsupported:
            self.refuse(str(error), at)
        self.wrong(str(error), at)

    def refuse(self, message: str, at: int) -> NoReturn:
        """Raise UnsupportedPredicateError."""
        raise UnsupportedPredicateError(message, position=at, text=self._text)

    def wrong(self, message: str, at: int) -> NoReturn:
        """Raise PredicateError."""
        raise PredicateError(message, position=at, text=self._text)


def is_divisor(node: Node) -> bool:
    """Whether division by it never fails."""
    return node.is_literal and node.detail != 0


def is_null(node: Node) -> bool:
    """Whether it is NULL for every row."""
    return node.is_literal and node.detail is None
