"""Bugs to plant in our own code, to show that a checker catches them.

A bug names a function by where it is kept, and in it a piece of syntax by its role: a call,
a condition, a statement. It is found by its shape and not by its text, so that it survives
whatever does not change the piece itself. In a pattern `_` stands for any expression, and
`...` for any other arguments of a call, or for any statements in a block. In what takes its
place `_` stands for the piece that was found.

    Bug("a segment is not synced", PartitionWriter, "roll", "_.make_durable()", "pass")
    Bug("the lock excludes no process", StoreLock, "_lock_file", "_.try_lock(...)", "_ or True")
"""

import __future__

import ast
import builtins
import contextlib
import copy
import dis
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, NamedTuple

_IGNORED = {"ctx", "lineno", "col_offset", "end_lineno", "end_col_offset", "type_comment", "kind"}
_BLOCKS = {"body", "orelse", "finalbody", "handlers"}
_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


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
        sound = self._sound()
        broken = self._broken(sound)
        places = self._places(sound)
        for place in places:
            setattr(place, self.name, broken)
        try:
            yield
        finally:
            for place in places:
                setattr(place, self.name, sound)

    def _sound(self) -> Any:
        found = vars(self.owner).get(self.name)
        assert found is not None, f"{self.owner.__name__} has no {self.name} any more: {self.title}"
        return found

    def _places(self, sound: Any) -> list[Any]:
        """Return everything that knows the function by its name."""
        if isinstance(self.owner, type):
            return [self.owner]
        modules = tuple(sys.modules.values())
        return [each for each in modules if getattr(each, "__dict__", {}).get(self.name) is sound]

    def _broken(self, sound: Any) -> Any:
        function = inspect.unwrap(_function(sound))
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        change = _Change(self.old, self.new)
        tree = ast.fix_missing_locations(change.visit(tree))
        ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
        assert change.is_made, f"nothing in {self.name} looks like {self.old!r}: {self.title}"
        module = sys.modules[function.__module__]
        flags = function.__code__.co_flags & _FUTURES
        code = compile(tree, inspect.getfile(function), "exec", flags, dont_inherit=True)
        # A bug that ends in a NameError would be caught by any test.
        strange = _globals(code) - {*dir(builtins), *vars(module), self.name}
        assert not strange, f"no such names in {self.name}: {sorted(strange)}: {self.title}"
        names: dict[str, Any] = {}
        exec(code, vars(module), names)  # noqa: S102 - Our own source.
        return names[self.name]


class Planted(NamedTuple):
    """A bug, and the scenario that has to notice."""

    bug: Bug
    scenario: Callable[..., None]

    def __str__(self) -> str:
        return f"{self.bug.name}-{self.scenario.__name__}"


def bug_in(
    owner: type | ModuleType, name: str, old: str, new: str, scenario: Callable[..., None]
) -> Planted:
    """Return a bug that is named after the scenario that has to notice."""
    return Planted(Bug(scenario.__name__, owner, name, old, new), scenario)


def _function(found: Any) -> Any:
    if isinstance(found, property):
        return found.fget
    return getattr(found, "__func__", found)


def _globals(code: CodeType) -> set[str]:
    """Return the names that the code looks for in its module."""
    found = {
        str(each.argval)
        for each in dis.get_instructions(code)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return found.union(*map(_globals, inner))


class _Change(ast.NodeTransformer):
    """Puts the new piece in place of the first that matches."""

    def __init__(self, old: str, new: str) -> None:
        (only,) = ast.parse(old).body
        self._old = only.value if isinstance(only, ast.Expr) else only
        self._new = ast.parse(new).body
        self.is_made = False

    def generic_visit(self, node: ast.AST) -> Any:
        if self.is_made:
            return node
        if _matches(node, self._old):
            self.is_made = True
            if isinstance(self._old, ast.stmt):
                return self._filled(node)
            return self._expression(self._filled(node))
        if isinstance(node, ast.Expr) and _matches(node.value, self._old):
            self.is_made = True
            return self._filled(node.value)
        return super().generic_visit(node)

    def _filled(self, piece: ast.AST) -> list[ast.stmt]:
        return [_Fill(piece).visit(copy.deepcopy(each)) for each in self._new]

    def _expression(self, new: list[ast.stmt]) -> ast.expr:
        assert len(new) == 1, "an expression gives way to one expression"
        if isinstance(new[0], ast.Expr):
            return new[0].value
        assert isinstance(new[0], ast.Pass), "an expression gives way to an expression"
        return ast.Constant(None)


class _Fill(ast.NodeTransformer):
    """Puts the piece that was found where the new one has `_`."""

    def __init__(self, piece: ast.AST) -> None:
        self._piece = piece

    def visit_Name(self, node: ast.Name) -> ast.AST:
        is_gap = node.id == "_" and isinstance(node.ctx, ast.Load)
        return copy.deepcopy(self._piece) if is_gap else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        value = self.visit(node.value)
        return value if isinstance(value, ast.stmt) else ast.Expr(value)


def _matches(node: object, pattern: object) -> bool:
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.expr)
    if isinstance(pattern, ast.AST):
        if type(node) is not type(pattern):
            return False
        fields = dict(ast.iter_fields(pattern))
        if isinstance(pattern, ast.Call) and _is_any(pattern.args[-1:]):
            first = pattern.args[:-1]
            return (
                isinstance(node, ast.Call)
                and _matches(node.func, pattern.func)
                and _matches(node.args[: len(first)], first)
            )
        if _is_any(fields.get("body")):
            fields = {name: value for name, value in fields.items() if name not in _BLOCKS}
        return all(
            _matches(getattr(node, name, None), value)
            for name, value in fields.items()
            if name not in _IGNORED
        )
    if isinstance(pattern, list):
        return (
            isinstance(node, list)
            and len(node) == len(pattern)
            and all(map(_matches, node, pattern))
        )
    return node == pattern


def _is_any(pieces: object) -> bool:
    if not isinstance(pieces, list) or len(pieces) != 1:
        return False
    piece = pieces[0].value if isinstance(pieces[0], ast.Expr) else pieces[0]
    return isinstance(piece, ast.Constant) and piece.value is ...
