"""A checked predicate as a tree: every node has its type."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from strandline.predicates.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class Node:
    """One operation on its inputs. Equal nodes give equal results."""

    op: str
    type: SqlType
    inputs: "tuple[Node, ...]" = ()
    detail: Any = None
    """A parameter of the operation: a value, a column, a pattern."""
    position: int = field(default=0, compare=False)
    can_fail: bool = field(default=False, compare=False)
    """Whether it, or one of its inputs, can fail on a row."""

    def walk(self) -> "Iterator[Node]":
        """Yield the node and all below it."""
        yield self
        for each in self.inputs:
            yield from each.walk()

    @property
    def is_literal(self) -> bool:
        """Whether it is one value for all rows."""
        return self.op == "literal"

    def columns(self) -> set[str]:
        """Return the names of the columns that it reads."""
        return {node.detail for node in self.walk() if node.op == "column"}


def literal(value: object, kind: SqlType, position: int) -> Node:
    """Return the node of one value."""
    return Node("literal", kind, (), value, position)
