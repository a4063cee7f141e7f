"""Tries one mutant: a child changes the code of its function and runs tests until one fails."""

import ast
import gc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from torture.mutants.changes import Change, changed
from torture.mutants.children import Reporter, in_child, run_item

Functions = Mapping[tuple[str, str, int], list[FunctionType]]
Codes = Sequence[tuple[FunctionType, CodeType]]


def functions_of(source: Path) -> Functions:
    """Return the functions of the files below `source` that this process has, by file, name and
    first line.
    """
    gc.unfreeze()
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{source}/"):
            found.setdefault(_key(each.__code__), []).append(each)
    gc.freeze()
    return found


def mutated(file: Path, source: bytes, change: Change, functions: Functions) -> Codes:
    """Return the functions that the change concerns with their changed code, including inner
    functions that exist in this process; nothing if the code cannot be replaced in place.
    """
    tree = changed(ast.parse(source), change)
    module = compile(tree, str(file), "exec", dont_inherit=True)
    inside = f"{change.function}.<locals>."
    found = [
        (function, code)
        for code in _codes(module)
        if code.co_qualname == change.function or code.co_qualname.startswith(inside)
        for function in functions.get(_key(code), [])
    ]
    fits = all(each.__code__.co_freevars == code.co_freevars for each, code in found)
    return found if fits else []


def noticed_by(codes: Codes, items: list[pytest.Item]) -> str | None:
    """Return the test that noticed the changed code, or None.

    A test may hang on it, or end the process.
    """

    def run(reporter: Reporter) -> None:
        for function, code in codes:
            function.__code__ = code
        for item in items:
            reporter.report(("begins", item.nodeid))
            if not run_item(item):
                reporter.report(("failed", item.nodeid))
                return
        reporter.report(("survived", ""))

    reports = in_child(run)
    what, name = reports[-1] if reports else ("begins", "the first test")
    if what == "survived":
        return None
    return f"{name}, which did not end" if what == "begins" else str(name)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno
