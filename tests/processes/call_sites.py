"""The I/O calls in a backend's source: found in its text, and at run time."""

import ast
import sys
import traceback
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import strandline.log
from strandline.io import Io

_LOG = Path(strandline.log.__file__).parent
_METHODS = {name for name in vars(Io) if not name.startswith("_")}


def of_this_call() -> str | None:
    """Return the line in the library from which the io was called; None if it was not there."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - There is no other way to ask.
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if _LOG in path.parents:
            return f"{path.relative_to(_LOG.parent)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def of_error(error: BaseException) -> str | None:
    """Return the line in the library at which the error came out of an io."""
    lines = [
        f"{Path(frame.filename).relative_to(_LOG.parent)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _LOG in Path(frame.filename).parents
    ]
    return lines[-1] if lines else None


class Site(NamedTuple):
    """One call in the text."""

    file: str
    function: str
    lines: range

    def __str__(self) -> str:
        return f"{self.file}:{self.lines.start} {self.function}"


def in_source(backend: str) -> list[Site]:
    """Return each call of an io in the backend's folder."""
    return [
        Site(str(path.relative_to(_LOG.parent)), function.name, _lines(node))
        for path in sorted((_LOG / backend).rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _is_io_call(node.func)
    ]


def unreached(backend: str, reached: Collection[str]) -> list[Site]:
    """Return the calls in the source that are not among those that were struck."""
    return [
        site
        for site in in_source(backend)
        if not any(f"{site.file}:{line}" in reached for line in site.lines)
    ]


def _lines(node: ast.Call) -> range:
    assert node.end_lineno is not None
    return range(node.lineno, node.end_lineno + 1)


def _is_io_call(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="io" | "_io"), attr=attr):
            return attr in _METHODS
        case ast.Attribute(value=ast.Attribute(attr="io" | "_io"), attr=attr):
            return attr in _METHODS
    return False
