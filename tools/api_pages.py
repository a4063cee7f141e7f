"""Writes docs/reference/api/ from the docstrings, and docs/reference/names.md, a table of the
names of `strandline` itself. These have a page for each subject (`api_subjects.py`); each other
public room has a page of its own.

    python -m tools.api_pages

A test compares the pages with what this makes.
"""

import ast
import enum
import functools
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from strandline.values import _plain_event, _plain_record
from tools.api_subjects import SUBJECTS

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "api"
PACKAGE = "strandline"
ROOMS = (
    PACKAGE,
    "strandline.spark",
    "strandline.testing",
    "strandline.tiering",
    "strandline.triggers",
    "strandline.writes",
)
NAMES = FOLDER.parent / "names.md"
_KINDS = ("function", "class", "constant", "error")
#: The Python versions of compiled classes, which have signatures.
_PLAIN = {"Event": _plain_event.Event, "Record": _plain_record.Record}
_SPECIAL = {"__aenter__", "__aiter__", "__await__", "__enter__", "__init__", "__iter__"}
_LINE_MAX = 76
#: The docstring of an async call that runs the blocking one in a thread.
_OFF_LOOP = re.compile(r"Do what `(?:\w+\.)*(\w+\.\w+)` does, off the event loop\.")


class Page(NamedTuple):
    """One page: its beginning, and the names of a module that it describes."""

    title: str
    opening: str
    module: str
    names: Sequence[str]

    def values(self) -> Iterator[tuple[str, str, Any]]:
        """Yield each name, its heading, and its value."""
        for name in self.names:
            value = _PLAIN.get(name) or getattr(import_module(self.module), name)
            # Without the module, `scan` and `Scan` would have one anchor.
            yield name, f"{self.module}.{name}" if inspect.isroutine(value) else name, value


@functools.cache
def _pages() -> Mapping[str, Page]:
    found = {
        subject.file: Page(f"# {subject.title}", subject.opening, PACKAGE, subject.names)
        for subject in SUBJECTS
    }
    for room in ROOMS:
        if room == PACKAGE:
            continue
        module = import_module(room)
        names = sorted(module.__all__, key=str.lower)
        found[f"{room}.md"] = Page(f"# `{room}`", inspect.getdoc(module) or "", room, names)
    return found


def pages() -> Mapping[str, str]:
    """Return the text of each page by the name of its file."""
    return {file: _text(file, page) for file, page in _pages().items()}


def _text(file: str, page: Page) -> str:
    """Return a page: its names, with signatures and docstrings."""
    parts = [page.title, page.opening]
    for name, heading, value in page.values():
        parts += [f"## {heading}", *_described(name, value)]
    return _cross_referenced("\n\n".join(part for part in parts if part) + "\n", file)


@functools.cache
def _places() -> Mapping[str, str]:
    """Return where each public name, and each method of one, has its heading."""
    found: dict[str, str] = {}
    for file, page in reversed([*_pages().items()]):
        for name, heading, value in page.values():
            found[name] = f"{file}#{_slug(heading)}"
            if inspect.isclass(value):
                for member in _described_members(value):
                    found[f"{name}.{member}"] = f"{file}#{_slug(f'{name}.{member}')}"
    package = import_module(PACKAGE)
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            found[name] = f"../errors/{name}.md"
    return found


def _slug(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading).lower()


def _cross_referenced(text: str, page: str) -> str:
    """Make links of the public names in the prose of a page."""
    places = _places()

    def linked(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        place = places.get(name)
        if place is None:
            return match[0]
        return f"[`{name}`]({place.removeprefix(page)})"

    text = re.sub(r"See docs/reference/errors/(\w+)\.md", r"See [`\1`](../errors/\1.md)", text)
    prose = re.split(r"(^```.*?^```$|^#.*?$)", text, flags=re.DOTALL | re.MULTILINE)
    pattern = re.compile(r"(?<![\[\w`./])(?:`([A-Za-z_.]+)`|([A-Z]\w+Error))(?![\w`/]|\.md)")
    return "".join(part if at % 2 else pattern.sub(linked, part) for at, part in enumerate(prose))


def names_page() -> str:
    """Return the table of every public name, functions first."""
    module = import_module(PACKAGE)
    rows = [_row(name, getattr(module, name)) for name in (*module.__all__, "__version__")]
    rows.sort(key=lambda row: (_KINDS.index(row[1]), row[0].lower()))
    lines = [
        f"| {_linked(name, kind)} | {kind} | {what.replace('|', chr(92) + '|')} |"
        for name, kind, what in rows
    ]
    head = (
        "# Public names\n\nThe names of `import strandline`. Names that are not in this table, or "
        "in `__all__` of a room with a page of its own, may change without notice.\n\n"
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
    place = f"errors/{name}.md" if kind == "error" else f"api/{_places()[name]}"
    return f"[`{name}`]({place})"


def _constant_docstring(name: str, value: Any) -> str:
    """Return the docstring below the definition of a constant."""
    body = ast.parse(inspect.getsource(import_module(type(value).__module__))).body
    for statement, following in itertools.pairwise(body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == name:
            assert isinstance(following, ast.Expr)
            assert isinstance(following.value, ast.Constant)
            return str(following.value.value)
    raise LookupError(name)


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(value)
    elif inspect.isroutine(value):
        yield from _function(name, value)
    elif not isinstance(value, type) and type(value).__module__.startswith("strandline"):
        yield "" if repr(value) == name else f"`{value!r}`"
        yield _constant_docstring(name, value)


def _class(kind: type) -> Iterator[str]:
    above = [each.__name__ for each in kind.__bases__ if each.__name__ in _places()]
    if above:
        yield f"A kind of {', '.join(f'`{name}`' for name in above)}."
    # The docstrings of object and Exception are not shown.
    yield _own_docstring(kind)
    if issubclass(kind, BaseException):
        return
    yield from _fields(kind)
    yield _awaited(kind)
    for name, member in _described_members(kind).items():
        yield f"### `{kind.__name__}.{name}`"
        if isinstance(member, property):
            yield f"```py\n{_property(name, member, kind)}\n```"
            yield _own_docstring(member)
        else:
            yield from _function(name, member)


def _described_members(kind: type) -> dict[str, Any]:
    """Return the members with a heading of their own: all but those that `_awaited` lists."""
    return {name: each for name, each in _members(kind).items() if not _blocking(each)}


def _awaited(kind: type) -> str:
    """Return which calls of an async face are awaited, and otherwise the blocking ones."""
    names = ", ".join(f"`{name}`" for name in map(_blocking, _members(kind).values()) if name)
    return names and f"Awaited, and with the parameters and results of the blocking call: {names}."


def _blocking(member: Any) -> str | None:
    """Return the name of the call that this one makes off the event loop and returns as it is."""
    match = _OFF_LOOP.fullmatch(_own_docstring(member))
    return match[1] if match and _returned(member) == _returned(inspect.unwrap(member)) else None


def _returned(function: Any) -> Any:
    return getattr(function, "__annotations__", {}).get("return")


def _fields(kind: type) -> Iterator[str]:
    """Yield a table of the fields of a value, or of the members of an enumeration."""
    is_enum = issubclass(kind, enum.Enum)
    rows: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("strandline"):
            rows |= dict(_written_fields(each, is_enum=is_enum))
    rows = {name: row for name, row in rows.items() if name not in _members(kind)}
    if rows:
        head = "| member | |" if is_enum else "| field | type | |"
        yield "\n".join([head, re.sub(r"[^|]+", "---", head), *rows.values()])


def _written_fields(kind: type, *, is_enum: bool) -> Iterator[tuple[str, str]]:
    try:
        (written,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except OSError:
        return  # Compiled, or created by a call: it has no written fields.
    assert isinstance(written, ast.ClassDef)
    for statement, following in itertools.pairwise([*written.body, ast.Pass()]):
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = " ".join(str(following.value.value).split())
        if is_enum and isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name = ast.unparse(statement.targets[0])
            cells = [f"`{name}`", text]
        elif not is_enum and isinstance(statement, ast.AnnAssign):
            name = ast.unparse(statement.target)
            kept = ast.unparse(statement.annotation)
            default = f" = {ast.unparse(statement.value)}" if statement.value else ""
            cells = [f"`{name}`", f"`{kept}{default}`".replace("|", "\\|"), text]
        else:
            continue
        if not name.startswith("_"):
            yield name, f"| {' | '.join(cells)} |"


def _property(name: str, member: property, kind: type) -> str:
    returned = getattr(member.fget, "__annotations__", {}).get("return", "")
    if isinstance(returned, TypeVar):
        returned = _argument(kind, returned)
    shown = returned if isinstance(returned, str) else inspect.formatannotation(returned)
    return f"{name}: {shown}" if shown else name


def _argument(kind: type, variable: TypeVar) -> Any:
    """Return the type that a class passes for a type variable of its base."""
    for base in getattr(kind, "__orig_bases__", ()):
        variables = getattr(get_origin(base), "__parameters__", ())
        if variable in variables:
            return get_args(base)[variables.index(variable)]
    return variable


def _members(kind: type) -> dict[str, Any]:
    """Return the public methods and properties, including those of our base classes."""
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
    """Return the signature of a function from its source, the same in every Python."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    (found,) = tree.body
    assert isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef))
    is_awaited = isinstance(found, ast.AsyncFunctionDef) or inspect.iscoroutinefunction(function)
    word = "async def" if is_awaited else "def"
    annotation = _unquoted(found.returns)
    returned = ast.unparse(annotation) if annotation else ""
    if _returned(function) != _returned(inspect.unwrap(function)):
        # An async call may return another type than the blocking call that it wraps.
        returned = _returned(function)
    returns = f" -> {returned}" if returned else ""
    parameters = list(_parameters(found.args))
    line = f"{word} {name}({', '.join(parameters)}){returns}"
    if len(line) <= _LINE_MAX:
        return line
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{word} {name}(\n{lines}){returns}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """Yield each parameter as it is written; options of a typed dictionary one by one."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [*arguments.defaults]
    for index, (each, default) in enumerate(zip(plain, defaults, strict=True), 1):
        if index > 1 or each.arg not in {"self", "cls", "kind"}:
            yield _parameter(each, default)
        if index == len(arguments.posonlyargs) and index > 1:
            yield "/"
    options = list(_options(arguments.kwarg))
    if arguments.vararg is not None:
        yield f"*{_parameter(arguments.vararg, None)}"
    elif arguments.kwonlyargs or options:
        yield "*"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(each, default)
    yield from options
    if arguments.kwarg is not None and not options:
        yield f"**{_parameter(arguments.kwarg, None)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    annotation = _unquoted(argument.annotation)
    written = argument.arg if annotation is None else f"{argument.arg}: {ast.unparse(annotation)}"
    if default is None:
        return written
    return f"{written}{'=' if annotation is None else ' = '}{ast.unparse(default)}"


def _options(argument: ast.arg | None) -> Iterator[str]:
    """Yield the options that `**options: Unpack[Options]` stands for."""
    annotation = None if argument is None else argument.annotation
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Unpack":
        yield from _written_options(ast.unparse(annotation.slice))


def _written_options(name: str) -> Iterator[str]:
    # A class name is used once, and its module may import it for type checkers alone.
    modules = [module for path, module in sys.modules.items() if path.startswith("strandline.")]
    options = next(vars(module)[name] for module in modules if name in vars(module))
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    assert isinstance(written, ast.ClassDef)
    for base in map(ast.unparse, written.bases):
        if base != "TypedDict":
            yield from _written_options(base)
    for statement in written.body:
        if isinstance(statement, ast.AnnAssign):
            yield f"{ast.unparse(statement)} = …"


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """Return an annotation without the quotes of a name that is defined later."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _own_docstring(value: Any) -> str:
    return inspect.cleandoc(value.__doc__) if getattr(value, "__doc__", None) else ""


def main() -> None:
    """Write every page, and remove obsolete ones."""
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
