"""Bugs to plant in the C sources: as in `tests.planting`, by function and by shape.

A bug names a function, and in it an expression: a call, a comparison, an assignment. In a
pattern `_` stands for any expression, and `...` for any other arguments of a call. In what
takes its place `_` stands for the expression that was found. Spaces, line ends, comments and
parentheses do not count, and neither does the file that a function is in.

    Bug("the end is not published", "lane_publish_end", "put_end(...)", "true")
    Bug("a checksum is not verified", "reader_look", "_ != read_u32(frame)", "false")
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tree_sitter_c
from tree_sitter import Language, Node, Parser

_PARSER = Parser(Language(tree_sitter_c.language()))
_REST = "rest_of_arguments"
_GAP = re.compile(r"\b_\b")


@dataclass(frozen=True)
class Bug:
    """`new` in place of each expression of `function` that looks like `old`."""

    title: str
    function: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.title

    def planted(self, sources: Mapping[str, str]) -> dict[str, str]:
        """Return the sources, by name, with the bug in one of them."""
        broken = {name: self._broken(source.encode()) for name, source in sources.items()}
        changed = [name for name in sources if broken[name] != sources[name]]
        place = f"{self.old!r} in {self.function}"
        assert changed, f"nothing looks like {place}: {self.title}"
        assert len(changed) == 1, f"several files have {place}: {changed}: {self.title}"
        return broken

    def _broken(self, source: bytes) -> str:
        pattern = _pattern(self.old)
        ours = [each for each in _functions(source) if _name(each) == self.function]
        found = [place for each in ours for place in _found(each, pattern)]
        for place in reversed(found):
            new = f"({_text(place)})".join(_GAP.split(self.new))
            source = source[: place.start_byte] + f"({new})".encode() + source[place.end_byte :]
        return source.decode()


def _parsed(source: bytes) -> Node:
    return _PARSER.parse(source).root_node


@functools.cache
def _functions(source: bytes) -> list[Node]:
    return list(_all(_parsed(source), "function_definition"))


def _pattern(text: str) -> Node:
    """Return the tree of an expression."""
    function = _parsed(f"int f() {{ return {text.replace('...', _REST)}; }}".encode())
    assert not function.has_error, f"no expression: {text!r}"
    (statement,) = _all(function, "return_statement")
    return statement.children[1]


def _all(node: Node, kind: str) -> Iterator[Node]:
    """Yield the outermost pieces of a kind."""
    if node.type == kind:
        yield node
    else:
        for each in node.children:
            yield from _all(each, kind)


def _name(function: Node) -> str:
    """Return the name of a function, which may return a pointer."""
    declared: Node | None = function
    while declared and declared.type != "identifier":
        declared = declared.child_by_field_name("declarator")
    return _text(declared) if declared else ""


def _found(node: Node, pattern: Node) -> Iterator[Node]:
    if _matches(node, pattern):
        yield node
    else:
        for each in node.children:
            yield from _found(each, pattern)


def _matches(node: Node, pattern: Node) -> bool:
    node, pattern = _bare(node), _bare(pattern)
    if _text(pattern) == "_":
        return node.is_named
    if node.type != pattern.type:
        return False
    ours, theirs = _parts(node), _parts(pattern)
    if len(theirs) > 1 and _text(theirs[-2]) == _REST:
        theirs = theirs[:-2]
        ours = ours[: len(theirs)]
    if not (ours or theirs):
        return node.text == pattern.text
    return len(ours) == len(theirs) and all(map(_matches, ours, theirs))


def _bare(node: Node) -> Node:
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    return node


def _parts(node: Node) -> list[Node]:
    return [each for each in node.children if each.type != "comment"]


def _text(node: Node) -> str:
    return (node.text or b"").decode()
