"""A predicate on one row, computed with Python's own values.

A call of an Arrow kernel costs more than a comparison of two numbers, so a single row,
such as an event of a trigger, is faster without kernels. Operations that are not here are
computed with kernels; a test checks that those here have the same results.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

import pyarrow as pa

from strandline.predicates.nested_kernels import LOOKS
from strandline.predicates.node import Node
from strandline.predicates.pattern import plain_search
from strandline.predicates.shredding import Shredder
from strandline.predicates.sql_type import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    conversion,
    is_decimal,
)
from strandline.predicates.steps import Path
from strandline.predicates.variant import typed_one

Row = Sequence[Any]
"""The values of the columns that are read: times as numbers, JSON as text."""

Compute = Callable[[Row], Any]

_PLAIN: Final = frozenset({BOOLEAN, STRING, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, *INTEGERS})
_TIMES: Final = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})
_COMPARE: Final = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
_TEXT: Final = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
}
_LIKE: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "equal": str.__eq__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "match_substring": str.__contains__,
}


class _Unsupported(Exception):  # noqa: N818 - Never leaves this module.
    """A part of a predicate that only kernels can compute."""


class RowTest:
    """One predicate, prepared for evaluation over rows."""

    def __init__(self, node: Node, schema: pa.Schema) -> None:
        self._schema = schema
        self._places: dict[str, int] = {}
        self._reads: list[Callable[[pa.RecordBatch], Any]] = []
        self._shredders = {column: Shredder(paths) for column, paths in _looked_at(node).items()}
        self._compute = self._compiled(node)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values form a row, in order."""
        return tuple(self._places)

    def matches(self, row: Row) -> bool | None:
        """Return whether a row matches, None for NULL; ArrowInvalid if it fails."""
        found: bool | None = self._compute(self._looked_into(row))
        return found

    def matches_batch(self, batch: pa.RecordBatch) -> bool | None:
        """Do the same for the only row of a batch of the schema."""
        return self.matches([read(batch) for read in self._reads])

    def _looked_into(self, row: Row) -> Row:
        if not self._shredders:
            return row
        return [
            self._shredders[name].one(value) if name in self._shredders else value
            for name, value in zip(self._places, row, strict=True)
        ]

    # --- the functions of nodes ---

    def _compiled(self, node: Node) -> Compute:
        if node.is_literal:
            value = node.detail
            return lambda _: value
        build = self._builds().get(node.op)
        if build is None:
            raise _Unsupported
        return build(node)

    def _builds(self) -> dict[str, Callable[[Node], Compute]]:
        return {
            "column": self._column,
            **dict.fromkeys(_COMPARE, self._comparison),
            **dict.fromkeys(_TEXT, self._searched),
            "like": self._alike,
            **dict.fromkeys(LOOKS, self._looked_up),
            "and": self._all_of,
            "or": self._any_of,
            "not": self._negated,
            "is_null": self._tested_null,
            "is_true": self._tested_true,
            "in": self._among,
            "lookup": self._found_by_key,
            "cast": self._widened,
        }

    def _column(self, node: Node) -> Compute:
        index = self._schema.get_field_index(node.detail)
        stored = self._schema.field(index).type
        is_plain = node.type in _PLAIN or is_decimal(node.type)
        if not is_plain or conversion(node.type, stored) is not None:
            raise _Unsupported
        return self._read(node, _moment if node.type in _TIMES else _value)

    def _read(self, node: Node, value_of: Callable[[Any], Any]) -> Compute:
        index = self._schema.get_field_index(node.detail)
        place = self._places.get(node.detail)
        if place is None:
            place = self._places[node.detail] = len(self._reads)
            self._reads.append(lambda batch: value_of(batch.column(index)))
        return lambda row: row[place]

    def _comparison(self, node: Node) -> Compute:
        left, right = map(self._compiled, node.inputs)
        test: Callable[[Any, Any], bool] = _COMPARE[node.op]
        if node.inputs[0].type is DOUBLE and not _is_number(node.inputs[1]):
            raise _Unsupported
        if node.inputs[0].type is DOUBLE and node.op in {"gt", "ge"}:
            # NaN is above all numbers: `a > b` is `NOT a <= b`.
            opposite = le if node.op == "gt" else lt
            test = lambda a, b: not opposite(a, b)  # noqa: E731
        if node.inputs[1].is_literal:
            value = node.inputs[1].detail
            return lambda row: None if (a := left(row)) is None else test(a, value)

        def compared(row: Row) -> bool | None:
            a, b = left(row), right(row)
            return None if a is None or b is None else test(a, b)

        return compared

    def _searched(self, node: Node) -> Compute:
        text, wanted = self._compiled(node.inputs[0]), node.inputs[1]
        if not wanted.is_literal:
            raise _Unsupported
        test, part = _TEXT[node.op], wanted.detail
        return lambda row: None if (found := text(row)) is None else test(found, part)

    def _alike(self, node: Node) -> Compute:
        text = self._compiled(node.inputs[0])
        plain = plain_search(node.detail)
        if plain is None:
            raise _Unsupported
        name, part = plain
        test = _LIKE[name]
        return lambda row: None if (found := text(row)) is None else test(found, part)

    def _looked_up(self, node: Node) -> Compute:
        column = node.inputs[0]
        if column.op != "column":
            raise _Unsupported
        read = self._read(column, _text_of_json)
        path, kind, is_try = node.detail, node.type, node.op == "try_variant_get"

        def looked_up(row: Row) -> Any:
            shredded = read(row)
            value = shredded.value(path)
            return typed_one(value, lambda: shredded.exact(path), kind, is_try=is_try)

        return looked_up

    def _found_by_key(self, node: Node) -> Compute:
        column, (key, _, stored) = node.inputs[0], node.detail
        if column.op != "column" or stored != pa.string():
            raise _Unsupported
        read = self._read(column, _value)

        def found(row: Row) -> Any:
            pairs = read(row)
            return next((value for name, value in pairs or () if name == key), None)

        return found

    def _widened(self, node: Node) -> Compute:
        (inner,) = node.inputs
        value = self._compiled(inner)
        if inner.type not in INTEGERS or node.can_fail:
            raise _Unsupported
        if node.type in INTEGERS or is_decimal(node.type):
            return value
        if node.type is not DOUBLE:
            raise _Unsupported
        return lambda row: None if (found := value(row)) is None else float(found)

    # --- logic ---

    def _all_of(self, node: Node) -> Compute:
        return self._joined(node, deciding=False)

    def _any_of(self, node: Node) -> Compute:
        return self._joined(node, deciding=True)

    def _joined(self, node: Node, *, deciding: bool) -> Compute:
        """Return a function that evaluates parts until one decides; failing parts need kernels."""
        if node.can_fail:
            raise _Unsupported
        parts = [self._compiled(each) for each in node.inputs]

        def joined(row: Row) -> bool | None:
            found: bool | None = not deciding
            for part in parts:
                each: bool | None = part(row)
                if each is deciding:
                    return deciding
                if each is None:
                    found = None
            return found

        return joined

    def _negated(self, node: Node) -> Compute:
        value = self._compiled(node.inputs[0])
        return lambda row: None if (found := value(row)) is None else not found

    def _tested_null(self, node: Node) -> Compute:
        value = self._compiled(node.inputs[0])
        return lambda row: value(row) is None

    def _tested_true(self, node: Node) -> Compute:
        value = self._compiled(node.inputs[0])
        return lambda row: value(row) is True

    def _among(self, node: Node) -> Compute:
        value, *choices = node.inputs
        found = self._compiled(value)
        given = [each.detail for each in choices if each.detail is not None]
        if value.type is DOUBLE and any(map(isnan, given)):
            raise _Unsupported
        otherwise = None if len(given) < len(choices) else False
        known = frozenset(given)

        def among(row: Row) -> bool | None:
            each = found(row)
            if each is None:
                return None
            return True if each in known else otherwise

        return among


def row_test(node: Node, schema: pa.Schema) -> RowTest | None:
    """Return a function that computes a node for one row; None if only kernels can."""
    try:
        return RowTest(node, schema)
    except _Unsupported:
        return None


def _looked_at(node: Node) -> dict[str, dict[Path, None]]:
    found: dict[str, dict[Path, None]] = {}
    for each in node.walk():
        if each.op in LOOKS and each.inputs[0].type is VARIANT and each.inputs[0].op == "column":
            found.setdefault(each.inputs[0].detail, {})[each.detail] = None
    return found


def _is_number(node: Node) -> bool:
    return node.is_literal and not isnan(node.detail)


def _value(column: Any) -> Any:
    return column[0].as_py()


def _moment(column: Any) -> Any:
    return column[0].value


def _text_of_json(column: Any) -> Any:
    found = column[0]
    return (found.value if isinstance(found, pa.ExtensionScalar) else found).as_py()
