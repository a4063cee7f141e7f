"""Writes docs/reference/api/ from the docstrings, a page for each public room, and a
table of the names of `strandline` itself, docs/reference/names.md.

    python -m tools.api_pages

A test holds the pages to what this makes.
"""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from strandline.values import _plain_event, _plain_record

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "api"
ROOMS = (
    "strandline",
    "strandline.spark",
    "strandline.testing",
    "strandline.tiering",
    "strandline.triggers",
    "strandline.writes",
)
NAMES = FOLDER.parent / "names.md"
_KINDS = ("function", "class", "constant", "error")
#: Of what is compiled, the same in Python, which has signatures.
_PLAIN = {"Event": _plain_event.Event, "Record": _plain_record.Record}
_SPECIAL = {"__aenter__", "__aiter__", "__await__", "__enter__", "__init__", "__iter__"}


def pages() -> Mapping[str, str]:
    """Return the text of each page by the name of its file."""
    return {f"{room}.md": page(room) for room in ROOMS}


def page(room: str) -> str:
    """Return a room's page: what it exports, with signatures and docstrings."""
    module = import_module(room)
    parts = [f"# `{room}`", inspect.getdoc(module) or ""]
    for name in sorted(module.__all__, key=str.lower):
        parts += _described(name, _PLAIN.get(name) or getattr(module, name))
    return "\n\n".join(part for part in parts if part) + "\n"


def names_page() -> str:
    """Return the table of every public name, functions first."""
    module = import_module("strandline")
    rows = [_row(name, getattr(module, name)) for name in (*module.__all__, "__version__")]
    rows.sort(key=lambda row: (_KINDS.index(row[1]), row[0].lower()))
    lines = [
        f"| {_linked(name, kind)} | {kind} | {what.replace('|', chr(92) + '|')} |"
        for name, kind, what in rows
    ]
    head = (
        "# Public names\n\nWhat `import strandline` offers. Whatever is not in this table, or in "
        "`__all__` of a room with a page of its own, may change without notice.\n\n"
        "| name | kind | what it is |\n|---|---|---|\n"
    )
    return head + "\n".join(lines) + "\n"


def _row(name: str, value: Any) -> tuple[str, str, str]:
    if name == "__version__":
        return name, "constant", "The version of the package, as it was installed."
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return name, "constant", _constant_docstring(name, value)
    kind = "function" if inspect.isroutine(value) else "class"
    if inspect.isclass(value) and issubclass(value, BaseException):
        kind = "error"
    return name, kind, _own_docstring(value).split("\n", 1)[0]


def _linked(name: str, kind: str) -> str:
    if name == "__version__":
        return f"`{name}`"
    page = f"errors/{name}.md" if kind == "error" else f"api/strandline.md#{name.lower()}"
    return f"[`{name}`]({page})"


def _constant_docstring(name: str, value: Any) -> str:
    """Return the text that stands below a constant where it is written."""
    body = ast.parse(inspect.getsource(import_module(type(value).__module__))).body
    for statement, following in itertools.pairwise(body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == name:
            assert isinstance(following, ast.Expr)
            assert isinstance(following.value, ast.Constant)
            return str(following.value.value)
    raise LookupError(name)


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"## {name}"
    if inspect.isclass(value):
        yield from _class(value)
    elif inspect.isroutine(value):
        yield from _function(name, value)
    elif not isinstance(value, type) and type(value).__module__.startswith("strandline"):
        yield f"`{value!r}`"


def _class(kind: type) -> Iterator[str]:
    above = [each.__name__ for each in kind.__bases__ if each.__module__.startswith("strandline")]
    if above:
        yield f"A kind of {', '.join(f'`{name}`' for name in above)}."
    # What object or Exception say of themselves is not a docstring of ours.
    yield _own_docstring(kind)
    if issubclass(kind, BaseException):
        return
    for name, member in _members(kind).items():
        if isinstance(member, property):
            yield f"**`{name}`** {_own_docstring(member)}".strip()
        else:
            yield from _function(name, member)


def _members(kind: type) -> dict[str, Any]:
    """Return the public methods and properties, wherever among our classes they are written."""
    found: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("strandline"):
            continue
        for name, member in vars(each).items():
            plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            is_shown = inspect.isfunction(plain) or isinstance(plain, property)
            if is_shown and (not name.startswith("_") or name in _SPECIAL):
                if name in found and not _own_docstring(plain):
                    continue
                found[name] = plain
    documented = {name: each for name, each in found.items() if _own_docstring(each)}
    return dict(sorted(documented.items()))


def _function(name: str, function: Any) -> Iterator[str]:
    yield f"```py\n{_signature(name, function)}\n```"
    yield _own_docstring(function)


def _signature(name: str, function: Any) -> str:
    """Return the head of a function as it is written, the same in every Python."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    (found,) = tree.body
    assert isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef))
    is_awaited = isinstance(found, ast.AsyncFunctionDef) or inspect.iscoroutinefunction(function)
    word = "async def" if is_awaited else "def"
    returned = ast.unparse(found.returns) if found.returns else ""
    if inspect.unwrap(function).__annotations__.get("return") != function.__annotations__.get(
        "return"
    ):
        # An async face may return something else than what it is made of.
        returned = function.__annotations__["return"]
    returns = f" -> {returned}" if returned else ""
    line = f"{word} {name}({ast.unparse(found.args)}){returns}"
    if len(line) <= 100:
        return line
    arguments = ast.unparse(found.args)
    wrapped = textwrap.fill(arguments, 96, initial_indent="    ", subsequent_indent="    ")
    return f"{word} {name}(\n{wrapped}\n){returns}"


def _own_docstring(value: Any) -> str:
    return inspect.cleandoc(value.__doc__) if getattr(value, "__doc__", None) else ""


def main() -> None:
    """Write every page, and remove what is no page any more."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    NAMES.write_text(names_page())


if __name__ == "__main__":
    main()
