"""Checks the position of parts that can fail, so that engines evaluate them on the same rows.

Spark evaluates the parts of a WHERE from left to right and drops a row at the first part
that is not true. But it also derives `column IS NOT NULL` from each part that needs the
column, and evaluates these conditions first or in between, depending on how it runs. So
it would be undefined whether a row reaches a failing part, if another part could drop the
row because of its NULLs. See design 0040.
"""

from typing import Final

from strandline.predicates.errors import UnsupportedPredicateError
from strandline.predicates.node import Node
from strandline.predicates.sql_type import DATE, INTEGERS, STRING, arrow_type, is_number

COMPARE: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
CALCULATE: Final = frozenset({"add", "sub", "mul", "div", "mod", "neg"})
TEXT: Final = frozenset({"like", "lower", "upper", "length", "startswith", "endswith"})

INTOLERANT: Final = COMPARE | CALCULATE | TEXT | {"column", "literal", "cast", "not"}
"""From these Spark derives `column IS NOT NULL`, which it evaluates before the part itself."""

_PASSING: Final = frozenset(
    {"abs", "round", "floor", "ceil", "bit_and", "bit_or", "bit_xor", "bit_not"}
    | {"rlike", "contains", "substring", "trim", "ltrim", "rtrim", "concat", "replace", "instr"}
    | {"date_trunc", "extract", "add_days", "datediff", "add_us", "add_months", "size"}
)
"""From these it may or may not: this differs by function, and by version."""

STRICT: Final = INTOLERANT | _PASSING
"""The result of these is NULL if and only if an input is NULL."""

MAY_BE_NULL: Final = frozenset(
    {"try_cast", "lookup", "field", "element", "variant_get", "try_variant_get", "array_contains"}
)
"""The result of these is NULL if an input is NULL, and may be NULL otherwise."""


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the top-level parts joined by AND, from left to right."""
    return node.inputs if node.op == "and" else (node,)


def check_order(node: Node, text: str) -> None:
    """Raise UnsupportedPredicateError if engines may differ on which rows fail."""
    parts = parts_of(node)
    for at, part in enumerate(parts):
        if part.can_fail:
            if any(_is_never_true(each) for each in parts):
                raise UnsupportedPredicateError(
                    "this can fail, and the result does not depend on it: what stands next to it "
                    "is never true, because of its NULL",
                    position=part.position,
                    text=text,
                )
            _check_part(part, text)
            _check_place(part, parts[:at], parts[at + 1 :], text)
            _check_neighbours(part, (*parts[:at], *parts[at + 1 :]), text)


def _is_never_true(part: Node) -> bool:
    """Whether Spark knows statically that no row passes the part, and drops all rows."""
    if part.op == "not":
        return _is_never_false(part.inputs[0])
    if part.op in {"and", "or"}:
        return (any if part.op == "and" else all)(map(_is_never_true, part.inputs))
    return part.is_literal and part.detail is not True


def _is_never_false(part: Node) -> bool:
    if part.op == "not":
        return _is_never_true(part.inputs[0])
    if part.op in {"and", "or"}:
        return (all if part.op == "and" else any)(map(_is_never_false, part.inputs))
    if part.op == "in":
        return any(each.is_literal and each.detail is None for each in part.inputs[1:])
    return part.is_literal and part.detail is not False


def _check_part(part: Node, text: str) -> None:
    nodes = list(part.walk())
    for each in nodes:
        if each.op in {"add", "mul"} and len(_constants(each, each.op)) > 1:
            # Spark adds constants first, which may avoid an overflow.
            raise UnsupportedPredicateError(
                "put the constants of one sum or product together, in parentheses",
                position=each.position,
                text=text,
            )
        if each.op in COMPARE and _may_be_skipped(*each.inputs):
            raise UnsupportedPredicateError(
                "an operation that can fail must not be compared with itself, or with a number "
                "that its type cannot hold",
                position=each.inputs[1].position,
                text=text,
            )
    loose = [each for each in nodes if each.op not in INTOLERANT]
    if not loose:
        return
    leaves = [each for each in nodes if each.op == "column"]
    if len(leaves) == 1 and all(each.op in MAY_BE_NULL | _PASSING for each in loose):
        return
    raise UnsupportedPredicateError(
        "an operation that can fail must stand directly in a comparison, joined to others "
        "by AND, not inside OR, IN, IS or <=>; calculate with DOUBLE or use TRY_CAST",
        position=min(each.position for each in loose),
        text=text,
    )


def _check_place(part: Node, before: tuple[Node, ...], after: tuple[Node, ...], text: str) -> None:
    seen = part.columns()
    used: set[str] = set()
    for each in before:
        if _may_be_null(each, part):
            raise UnsupportedPredicateError(
                "no part that may be NULL may come before a comparison that can fail, "
                "such as a path, TRY_CAST, OR or CASE; move it behind, or test it with IS TRUE",
                position=each.position,
                text=text,
            )
        if _is_null_test(each):
            used |= each.columns()
        else:
            seen |= each.columns() if all(n.op in INTOLERANT for n in each.walk()) else set()
    for each in after:
        used |= each.columns()
    if used - seen:
        raise UnsupportedPredicateError(
            "a comparison that can fail comes last, after comparisons with all other columns; "
            "move it, calculate with DOUBLE or use TRY_CAST",
            position=part.position,
            text=text,
        )


def _may_be_null(part: Node, failing: Node) -> bool:
    """Whether a part may be NULL on a row where no column of `failing` is NULL.

    In interpreted mode Spark continues after a NULL, in compiled mode it does not.
    """
    nodes = list(part.walk())
    if _is_never_null(part) or all(each.op in INTOLERANT for each in nodes):
        return False
    if any(each.op in {"case", "coalesce"} for each in nodes):
        return True
    inner = set(failing.walk())
    makes_nulls = any(each.op in MAY_BE_NULL and each not in inner for each in nodes)
    return makes_nulls or not part.columns() <= failing.columns()


def _is_never_null(part: Node) -> bool:
    if part.op in {"not", "and", "or"}:
        return all(map(_is_never_null, part.inputs))
    return part.op in {"is_null", "is_true", "is_false"}


def _is_null_test(part: Node) -> bool:
    return any(each.op == "is_null" for each in part.walk())


def _may_be_skipped(value: Node, other: Node) -> bool:
    # Spark knows statically how a value compares to itself, that no INT is 0.5, that each is
    # below 3000000000, and that no DATE is noon.
    if value == other:
        return True
    if value.op != "cast" or not other.is_literal or other.detail is None:
        return False
    inner = value.inputs[0]
    if inner.can_fail and inner.type is DATE:
        return True
    if not inner.can_fail or not is_number(inner.type):
        return False
    if inner.type not in INTEGERS:
        return True
    most = 2 ** (arrow_type(inner.type).bit_width - 1) - 1
    return bool(not -most <= other.detail < most or other.detail != int(other.detail))


def _constants(node: Node, op: str) -> list[Node]:
    if node.op == op:
        return [found for each in node.inputs for found in _constants(each, op)]
    return [node] if node.is_literal else []


def _check_neighbours(part: Node, others: tuple[Node, ...], text: str) -> None:
    """Refuse an equality from which Spark may derive another part that fails elsewhere.

    From `a = b AND a + 1 > 0` it derives `b + 1 > 0`, and from `a = 0 AND 1 / a > 0` the
    computation of 1 / 0, for rows that do not reach that part here.
    """
    read = part.columns()
    for other in others:
        if read & other.columns() and not _is_harmless(other):
            raise UnsupportedPredicateError(
                "a comparison that can fail must not stand next to an equality with a column that "
                "it reads; write the value instead",
                position=other.position,
                text=text,
            )


def _is_harmless(part: Node) -> bool:
    inner = part.inputs[0] if part.op == "not" else part
    if inner.op == "in":
        return part.op == "not" or len({each.detail for each in inner.inputs[1:]}) > 1
    if part.op == "not":
        return inner.op in {"eq", "like", "startswith", "endswith", "column"}
    if part.op == "eq":
        return not all(_is_place(each) for each in part.inputs)
    if part.op == "or":
        return all(each.op in COMPARE for each in part.inputs)
    return part.op in {"ne", "lt", "le", "gt", "ge", "like", "startswith", "endswith", "column"}


def _is_place(node: Node) -> bool:
    while node.op == "cast" and node.inputs[0].type is not STRING:
        node = node.inputs[0]
    return node.op in {"column", "literal"}
