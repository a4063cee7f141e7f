"""Bugs to plant in our own code, in order to see that a checker catches them.

A bug names a function by where it is kept, and in it a piece of syntax by its role: a call,
a condition, a statement. It is found by its shape and not by its text, so that it survives
whatever does not change the piece itself. In a pattern `_` stands for any expression, and
`...` as the arguments of a call for any arguments.

    Bug("a segment is not synced", PartitionWriter, "roll", "_.make_durable()", "pass")
"""

import ast
import builtins
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_IGNORED = {"ctx", "lineno", "col_offset", "end_lineno", "end_col_offset", "type_comment", "kind"}


@dataclass(frozen=True)
class Bug:
    """`new` in place of the first piece of `name` that `old` describes."""

    title: str
    #: A class, or a module whose function it is.
    owner: type | ModuleType
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.title

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug in the code for as long as the block runs."""
        healthy = self._healthy()
        ill = self._ill(healthy)
        places = self._places(healthy)
        for place in places:
            setattr(place, self.name, ill)
        try:
            yield
        finally:
            for place in places:
                setattr(place, self.name, healthy)

    def _healthy(self) -> Any:
        found = vars(self.owner).get(self.name)
        assert found is not None, f"{self.owner.__name__} has no {self.name} any more: {self.title}"
        return found

    def _places(self, healthy: Any) -> list[Any]:
        """Return everything that knows the function by its name."""
        if isinstance(self.owner, type):
            return [self.owner]
        modules = [
            each for name, each in tuple(sys.modules.items()) if name.startswith("strandline")
        ]
        return [each for each in modules if vars(each).get(self.name) is healthy]

    def _ill(self, healthy: Any) -> Any:
        function = inspect.unwrap(_function(healthy))
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        changed = _Change(self.old, self.new)
        tree = ast.fix_missing_locations(changed.visit(tree))
        assert changed.is_made, f"nothing in {self.name} looks like {self.old!r}: {self.title}"
        module = sys.modules[function.__module__]
        code = compile(tree, inspect.getfile(function), "exec")
        names: dict[str, Any] = {}
        exec(code, vars(module), names)  # noqa: S102 - Our own source.
        ill = names[self.name]
        self._check_names(function, _function(ill), module)
        return ill

    def _check_names(self, function: Any, ill: Any, module: ModuleType) -> None:
        """A bug that ends in a NameError would be caught by anything."""
        known = {*dir(builtins), *vars(module), *function.__code__.co_names}
        strange = set(ill.__code__.co_names) - known - _attributes(self.new)
        assert not strange, f"no such names in {self.name}: {sorted(strange)}: {self.title}"


def _function(found: Any) -> Any:
    if isinstance(found, property):
        return found.fget
    return getattr(found, "__func__", found)


def _attributes(text: str) -> set[str]:
    tree = ast.parse(text)
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | {
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }


class _Change(ast.NodeTransformer):
    """Puts the new piece in place of the first that matches."""

    def __init__(self, old: str, new: str) -> None:
        self._old = _piece(old)
        self._new = ast.parse(new).body
        self.is_made = False

    def generic_visit(self, node: ast.AST) -> Any:
        if not self.is_made and _matches(node, self._old):
            self.is_made = True
            if isinstance(self._old, ast.stmt):
                return self._new
            assert len(self._new) == 1, "an expression gives way to one expression"
            (only,) = self._new
            return only.value if isinstance(only, ast.Expr) else ast.Constant(None)
        return super().generic_visit(node)


def _piece(text: str) -> ast.AST:
    (only,) = ast.parse(text).body
    return only.value if isinstance(only, ast.Expr) else only


def _matches(node: object, pattern: object) -> bool:
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.expr)
    if isinstance(pattern, ast.AST):
        if type(node) is not type(pattern):
            return False
        if isinstance(pattern, ast.Call) and _is_any(pattern.args):
            assert isinstance(node, ast.Call)
            return _matches(node.func, pattern.func)
        if isinstance(pattern, ast.If | ast.While) and _is_any(pattern.body):
            return _matches(node.test, pattern.test)  # type: ignore[attr-defined]
        return all(
            _matches(getattr(node, field, None), value)
            for field, value in ast.iter_fields(pattern)
            if field not in _IGNORED
        )
    if isinstance(pattern, list):
        return (
            isinstance(node, list)
            and len(node) == len(pattern)
            and all(map(_matches, node, pattern))
        )
    return node == pattern


def _is_any(pieces: list[Any]) -> bool:
    if len(pieces) != 1:
        return False
    piece = pieces[0].value if isinstance(pieces[0], ast.Expr) else pieces[0]
    return isinstance(piece, ast.Constant) and piece.value is ...
