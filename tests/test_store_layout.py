"""What stores share lies above them, and no other module depends on which store it is."""

import ast
import io
import keyword
import re
import tokenize
import tomllib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "strandline"
STORES = PACKAGE / "stores"
#: The parts of the port that all stores may share count for no single store.
EACH_STORE = ("memory.py", "files", "sqlite", "postgres", "jetstream", "kafka", "remote")
LINES_MIN = 6

SCHEMES = {"memory", "file", "sqlite", "postgres", "postgresql", "nats"}
#: Also a format of messages and a protocol: schemes only where a colon follows.
SCHEMES_WITH_COLON = {"kafka:", "http:", "https:"}
STORE_CLASSES = {
    *("MemoryStore", "FileStore", "SqliteStore", "PostgresStore"),
    *("JetStreamStore", "KafkaStore", "RemoteStore"),
}
#: Where schemes belong: the table of kinds, the form of URLs, and the stores.
KNOW_SCHEMES = (PACKAGE / "opening.py", PACKAGE / "values" / "log_url.py", STORES)
#: Their URLs are those of object stores and files, which have schemes of their own.
OBJECT_STORES = (
    PACKAGE / "tiering" / "object_store.py",
    PACKAGE / "tiering" / "iceberg" / "place.py",
    PACKAGE / "spark" / "file_systems.py",
    PACKAGE / "spark" / "jobs" / "backfilling.py",
    PACKAGE / "spark" / "jobs" / "kept_terms.py",
)

#: What a file has to contain before it is worth parsing.
NAMED = re.compile(
    "|".join(
        (
            *(rf"[\"']{scheme}" for scheme in sorted(SCHEMES | SCHEMES_WITH_COLON)),
            *sorted(STORE_CLASSES),
        )
    )
)
TEXT_CALLS = {"startswith", "endswith", "removeprefix", "partition", "split"}

_SKIPPED = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


class Run(NamedTuple):
    """Lines that follow each other, with what is left of each without its names and values."""

    place: str
    lines: tuple[int, ...]
    shapes: tuple[str, ...]


def test_every_store_is_checked() -> None:
    packages = {path.parent.name for path in STORES.glob("*/__init__.py")}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (apart,) = (
        each["modules"] for each in contracts["contracts"] if each["type"] == "independence"
    )

    assert set(EACH_STORE) == {"memory.py", *packages}
    assert set(apart) == {f"strandline.stores.{Path(name).stem}" for name in EACH_STORE}


@pytest.mark.slow
def test_no_two_stores_share_six_lines_of_one_shape() -> None:
    stores = [runs_of_store(STORES / name) for name in EACH_STORE]

    pairs = [pair for one, other in combinations(stores, 2) for pair in shared(one, other)]

    assert not pairs, "move what they share up into log, or to a module beside them"


def test_shared_lines_are_found_whatever_their_names(tmp_path: Path) -> None:
    body = "\n".join(f"    {name} = self.{name}(1, 'a')" for name in "abcdef")
    (tmp_path / "one.py").write_text(f"def one(self):\n{body}\n")
    (tmp_path / "other.py").write_text(f"def other(it):\n{body.replace('self', 'it')}\n")

    found = shared(runs_of_store(tmp_path / "one.py"), runs_of_store(tmp_path / "other.py"))

    assert found == ["one.py:2-7 ~ other.py:2-7"]


def test_only_opening_and_the_stores_know_a_scheme() -> None:
    branches = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path.is_relative_to(known) for known in (*KNOW_SCHEMES, *OBJECT_STORES))
        if NAMED.search(path.read_text())
        for line in scheme_branches(ast.parse(path.read_text()))
    ]

    assert not branches, "declare a capability, or a field of StoreKind, and ask for that"


@pytest.mark.parametrize(
    "source",
    [
        "if url.startswith('sqlite:'): pass",
        "x = scheme == 'file'",
        "x = scheme in ('memory', 'file')",
        "match scheme:\n case 'memory': pass",
        "x = {'sqlite': 1}[scheme]",
        "x = isinstance(store, MemoryStore)",
        "x = type(store) is sqlite.SqliteStore",
        "x = url.removeprefix('file:')",
        "if url.startswith(('http://', 'https://')): pass",
        "x = isinstance(store, KafkaStore)",
        "REMOTE = ('http:', 'https:')\nx = url.startswith(REMOTE)",
    ],
)
def test_a_branch_on_a_scheme_is_found(source: str) -> None:
    assert list(scheme_branches(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "raise Invalid('use file: or sqlite:')",
        "open('file:log')",
        "x = kind == 'event'",
        "x = value_format == 'kafka'",
    ],
)
def test_naming_a_scheme_in_a_message_or_a_url_is_no_branch(source: str) -> None:
    assert not list(scheme_branches(ast.parse(source)))


# --- lines of one shape ---


def runs_of_store(place: Path) -> list[Run]:
    """Return what a store consists of: the runs of statements of its modules."""
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    root = place.parent
    return [run for path in files for run in runs_of(path, path.relative_to(root).as_posix())]


def runs_of(path: Path, shown: str) -> Iterator[Run]:
    """Yield the bodies of the functions of a module, each a run.

    What a port prescribes is not shared code: signatures and fields are left out.
    """
    source = path.read_text()
    shapes = line_shapes(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = tuple(line for line in own_lines(node) if line in shapes)
            yield Run(shown, lines, tuple(shapes[line] for line in lines))


def own_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int]:
    """Return the lines of a function's statements, without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return [line for each in body for line in range(each.lineno, (each.end_lineno or 0) + 1)]


def line_shapes(source: str) -> dict[int, str]:
    """Return each line's tokens, a placeholder for every name, string and number."""
    shapes: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _SKIPPED:
            continue
        text = token.string
        if token.type == tokenize.NAME and not keyword.iskeyword(text):
            text = "name"
        elif token.type in {tokenize.STRING, tokenize.NUMBER}:
            text = "value"
        shapes.setdefault(token.start[0], []).append(text)
    return {line: " ".join(tokens) for line, tokens in shapes.items()}


def shared(one: list[Run], other: list[Run]) -> list[str]:
    """Return where the two have LINES_MIN or more lines of the same shapes in a row."""
    known: dict[tuple[str, ...], tuple[Run, int]] = {}
    for run in one:
        for start in range(len(run.shapes) - LINES_MIN + 1):
            known.setdefault(run.shapes[start : start + LINES_MIN], (run, start))
    found = []
    for run in other:
        for start in range(len(run.shapes) - LINES_MIN + 1):
            match = known.get(run.shapes[start : start + LINES_MIN])
            if match is not None:
                found.append(f"{place(*match)} ~ {place(run, start)}")
    return found


def place(run: Run, start: int) -> str:
    return f"{run.place}:{run.lines[start]}-{run.lines[start + LINES_MIN - 1]}"


# --- branches on a scheme ---


def scheme_branches(module: ast.Module) -> Iterator[int]:
    """Yield the lines that decide by a scheme's name or by a store's class."""
    constants = constants_of(module)
    for node in ast.walk(module):
        if any(names_a_scheme(each, constants) for each in deciding(node)):
            yield getattr(node, "lineno", 0)


def constants_of(module: ast.Module) -> dict[str, ast.expr]:
    """Return the values of the module's own names."""
    found = {}
    for node in module.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found[name] = value
    return found


def deciding(node: ast.AST) -> list[ast.expr]:
    """Return what a node decides by, if it decides anything."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in TEXT_CALLS:
            return args
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=args):
            return args
        case ast.MatchValue(value=value):
            return [value]
        case ast.Subscript(value=ast.Dict(keys=keys)):
            return [key for key in keys if key is not None]
    return []


def names_a_scheme(node: ast.expr, constants: dict[str, ast.expr]) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            name = text.rstrip("/")
            return name in SCHEMES_WITH_COLON or name.removesuffix(":") in SCHEMES
        case ast.Tuple(elts=each) | ast.List(elts=each) | ast.Set(elts=each):
            return any(names_a_scheme(one, constants) for one in each)
        case ast.Name(id=name) if name in constants:
            return names_a_scheme(constants[name], {})
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in STORE_CLASSES
        case ast.BinOp(left=left, right=right):
            return names_a_scheme(left, constants) or names_a_scheme(right, constants)
    return False
