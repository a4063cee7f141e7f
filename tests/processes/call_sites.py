"""Where in a backend's source an Io is called: found in its text, and at run time."""

import ast
import sys
from pathlib import Path
from types import FrameType

import strandline.log
from strandline.io import Io

_LOG = Path(strandline.log.__file__).parent
_IO_FILE = str(Path(strandline.log.__file__).parent.parent / "io.py")
_METHODS = {name for name in vars(Io) if not name.startswith("_")}


def of_this_call() -> str | None:
    """Return the line in the library from which the io was called; None if it was not there."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - There is no other way to ask.
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if _LOG in path.parents or str(path) == _IO_FILE:
            return f"{path.relative_to(_LOG.parent)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def in_source(backend: str) -> dict[str, range]:
    """Return each call of an io in the backend's folder, as file:line, with all its lines."""
    found = {}
    for path in sorted((_LOG / backend).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _is_io_call(node.func):
                assert node.end_lineno is not None
                shown = f"{path.relative_to(_LOG.parent)}:{node.lineno}"
                found[shown] = range(node.lineno, node.end_lineno + 1)
    return found


def unreached(backend: str, reached: set[str]) -> list[str]:
    """Return the calls in the source that are not among those that were struck."""
    return [
        site
        for site, lines in in_source(backend).items()
        if not any(f"{site.rpartition(':')[0]}:{line}" in reached for line in lines)
    ]


def _is_io_call(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="io" | "_io"), attr=attr):
            return attr in _METHODS
        case ast.Attribute(value=ast.Attribute(attr="io" | "_io"), attr=attr):
            return attr in _METHODS
    return False
