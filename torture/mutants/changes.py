"""The changes that make a mutant: each replaces one node of the syntax tree of a function."""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Change(NamedTuple):
    """One change of a function; `step` counts its nodes in the order of `ast.walk`."""

    function: str
    """Its qualified name in the module."""
    step: int
    which: int
    """Which of the node's changes."""
    line: int
    """The first of the statement, which is run whenever the node is."""
    before: str
    after: str


def changes(tree: ast.Module) -> Iterator[Change]:
    """Yield every change of the functions of a module."""
    for name, function in functions(tree):
        line = function.lineno
        for step, node in enumerate(_nodes(function)):
            if isinstance(node, ast.stmt):
                line = node.lineno
            for which, new in enumerate(_others(node)):
                yield Change(name, step, which, line, _shown(node), _shown(new))


def changed(tree: ast.Module, change: Change) -> ast.Module:
    """Return the module with the change made in it."""
    tree = copy.deepcopy(tree)
    function = dict(functions(tree))[change.function]
    node = _nodes(function)[change.step]
    new = list(_others(node))[change.which]
    _Replacement(node, new).visit(function)
    return ast.fix_missing_locations(tree)


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions and methods of a module with their names; inner ones are parts.

    Of several with one name (overloads, property accessors), only the last is yielded.
    """
    found: dict[str, Function] = {}
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                found[prefix + child.name] = child
            elif isinstance(child, ast.ClassDef):
                waiting.append((f"{prefix}{child.name}.", child))
            else:
                waiting.append((prefix, child))
    yield from found.items()


def _nodes(function: Function) -> list[ast.AST]:
    """Return the nodes of a function that run when it is called."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed([each for each in ast.iter_child_nodes(node) if _runs(each, node)]))
    return found


def _runs(node: ast.AST, parent: ast.AST) -> bool:
    """Whether a node has an effect: annotations and f-strings are left out."""
    if isinstance(node, ast.JoinedStr | ast.FormattedValue):
        return False
    return not (
        isinstance(parent, ast.AnnAssign | ast.arg | Function)
        and node in (getattr(parent, "annotation", None), getattr(parent, "returns", None))
    )


def _others(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901, PLR0912 # One branch for each form.
    match node:
        case ast.Compare(ops=[op, *rest]):
            yield ast.Compare(node.left, [_COMPARISONS[type(op)](), *rest], node.comparators)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(other, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.UnaryOp(op=ast.USub()):
            yield node.operand
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in _ARITHMETIC:
            yield ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
            yield ast.Pass()
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.If() if not _is_negated_otherwise(node.test):
            yield ast.If(_not(node.test), node.body, node.orelse)
        case ast.While() if not _is_negated_otherwise(node.test):
            yield ast.While(_not(node.test), node.body, node.orelse)
        case ast.IfExp() if not _is_negated_otherwise(node.test):
            yield ast.IfExp(_not(node.test), node.body, node.orelse)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.Slice(lower=None, upper=ast.expr()) | ast.Slice(lower=ast.expr(), upper=None):
            yield ast.Slice(None, None, node.step)


def _is_negated_otherwise(test: ast.expr) -> bool:
    """Whether another change negates the condition already, or it is a constant."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In()]):
            return True
        case ast.Compare(ops=[ast.NotIn()]) | ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return True
    return False


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _shown(node: ast.AST) -> str:
    """Return the first line of a node's source."""
    first, *more = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines() or [""]
    return f"{first} …" if more else first


class _Replacement(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)
