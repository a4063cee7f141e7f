"""The shape of the project: sizes, names, exports, reference tags, what the tree may hold."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

# `make lint` runs them, too.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "strandline"
TREES = ("src", "tests", "benchmarks", "torture", "examples", "tools")

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

ROLE_NAMES = {
    *("manager", "helper", "util", "common", "base", "handler"),
    *("processor", "wrapper", "service", "info", "data"),
}

# Chapter of the specification → how many reference tests (T) and weaknesses (W) it has.
# Every tag of a finished chapter is carried by a test, in its name or its docstring.
CHAPTERS_DONE: dict[str, tuple[int, int]] = {
    "A": (15, 9),
    "B": (12, 13),
    "C": (21, 15),
    "D": (42, 15),
    "E": (5, 16),
}

#: What docstrings refer to in the core and in other packages.
FOREIGN_NAMES = {"Appender", "Headers", "Mapping", "Starlette"}

MADE_FOLDERS = {".git", ".venv", ".cache", ".tmp", "dist", "__pycache__"}
MACHINE_PATH = re.compile(r"(?:(?<![\w.$}/-])|(?<=://))/(?:root|home|Users|work)/[\w.-]")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_modules_are_short() -> None:
    long = {
        shown(path): lines
        for path in python_files()
        if (lines := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    }

    assert not long, f"split these modules by noun; lines_max={MODULE_LINES_MAX}"


def test_functions_fit_one_screen() -> None:
    long = {
        f"{shown(path)}:{node.lineno} {node.name}": lines
        for path in python_files()
        for node in ast.walk(parsed(path))
        if isinstance(node, Function) and (lines := length(node)) > FUNCTION_LINES_MAX
    }

    assert not long, f"split these functions; lines_max={FUNCTION_LINES_MAX}"


def test_names_say_what_a_thing_is() -> None:
    named = [
        f"{shown(path)}: {name}"
        for path in python_files()
        for name in (path.parent.name, path.stem, *class_names(path))
        if ROLE_NAMES & set(words(name))
    ]

    assert not named, "name the noun it keeps or the verb it does"


def test_a_class_name_is_used_once() -> None:
    repeated = repeated_classes(ROOT / "src")

    assert not repeated, "one class name, one meaning: name what is different about each"


def test_a_class_name_that_is_used_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Place: ...\nclass One: ...\n")
    (tmp_path / "other.py").write_text("def make():\n    class Place: ...\n")

    assert repeated_classes(tmp_path) == {"Place": ["one.py", "other.py"]}


def test_public_modules_have_a_docstring() -> None:
    silent = [shown(path) for path in public_modules() if not ast.get_docstring(parsed(path))]

    assert not silent, "say in a docstring what the module promises"


def test_docstrings_refer_to_classes_that_there_are() -> None:
    trees = {path: parsed(path) for path in (ROOT / "src").rglob("*.py")}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    known = FOREIGN_NAMES | {node.name for _, node in nodes if isinstance(node, ast.ClassDef)}

    stale = [
        f"{shown(path)}: {name}"
        for path, node in nodes
        if isinstance(node, Function | ast.ClassDef | ast.Module)
        for name in referred(ast.get_docstring(node) or "")
        if name not in known
    ]

    assert not stale, "name what there is now"


def test_rooms_export_what_they_hold() -> None:
    wrong = {}
    for path in PACKAGE.rglob("__init__.py"):
        module = parsed(path)
        exported, held = declared_exports(module), public_names(module)
        if exported is None and not held:
            continue
        if exported is None or sorted(exported) != sorted(held):
            wrong[shown(path)] = sorted(set(exported or ()) ^ held) or exported

    assert not wrong, "__all__ names, once each, what the module imports from us or defines"


def test_only_io_uses_the_builtin_open() -> None:
    doors = {PACKAGE / "io.py", *(PACKAGE / "io").rglob("*.py")}
    opened = [
        f"{shown(path)}:{line}"
        for path in set((ROOT / "src").rglob("*.py")) - doors
        for line in builtin_open_lines(parsed(path))
    ]

    assert not opened, "go through io"


def test_private_modules_are_imported_within_their_room_alone() -> None:
    reached_in = [
        f"{shown(path)}: {module}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for module in imported_modules(parsed(path))
        if (room := private_in(module)) and not path.is_relative_to(PACKAGE.parent / room)
    ]

    assert not reached_in, "rename the module, or ask its room"


def test_a_module_that_is_private_elsewhere_is_found() -> None:
    tree = ast.parse("from strandline.values._json import decode\nimport strandline.log\n")

    assert [private_in(module) for module in imported_modules(tree)] == ["strandline/values", None]


def test_threads_are_started_so_that_an_interrupt_is_raised_as_what_it_is() -> None:
    started = [
        f"{shown(path)}:{line}"
        for path in set((ROOT / "src").rglob("*.py")) - {PACKAGE / "locks.py"}
        for line in started_thread_lines(parsed(path))
    ]

    assert not started, "start it with locks.start_thread"


def test_a_thread_that_is_started_by_itself_is_found() -> None:
    tree = ast.parse(
        "threading.Thread(target=run).start()\n"
        "self._watch = Thread(target=run)\n"
        "self._watch.start()\n"
        "query.start()\n"
    )

    assert started_thread_lines(tree) == [1, 3]


def test_reference_tags_of_finished_chapters_are_carried_by_tests() -> None:
    carried = {
        tag
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
        for test in each_test(parsed(path))
        for tag in tags_of(test)
    }

    missing = [tag for tag in wanted_tags() if tag not in carried]

    assert not missing, f"no test carries {' '.join(missing)}"


def test_lock_files_hold_no_address() -> None:
    locks = list((ROOT / "requirements").glob("*.txt"))
    addressed = [
        f"{shown(path)}:{number}"
        for path in locks
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "://" in line or line.lstrip().startswith(("-i ", "--index", "--extra-index", "--find"))
    ]

    assert locks
    assert not addressed, "write the locks with make lock"
    assert not (ROOT / "uv.lock").exists(), "uv.lock holds addresses; requirements/ is the lock"


def test_no_file_names_a_path_of_one_machine() -> None:
    named = [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path in project_files()
        for number, line in enumerate(text_lines(path), 1)
        if MACHINE_PATH.search(line)
    ]

    assert not named, "use a path relative to the project"


def test_set_up_parses_on_an_old_python() -> None:
    source = (ROOT / "tools" / "setup_env.py").read_text()

    ast.parse(source, feature_version=(3, 8))


def python_files() -> list[Path]:
    return sorted(path for tree in TREES for path in (ROOT / tree).rglob("*.py"))


def public_modules() -> Iterator[Path]:
    for path in (ROOT / "src").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if not any(part.startswith("_") and part != "__init__" for part in parts):
            yield path


def project_files() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in MADE_FOLDERS]
        yield from (Path(folder, name) for name in names)


def text_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except UnicodeDecodeError:
        return []


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def started_thread_lines(tree: ast.Module) -> list[int]:
    """Return the lines that call `start` of a thread that the module makes."""
    threads = {
        called(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and called(node.value) == "Thread"
        for target in node.targets
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "start"
        and called(node.func.value) in {"Thread", *threads}
    ]


def called(node: ast.expr) -> str | None:
    """Return the last part of a name, or of the name of what is called."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def referred(docstring: str) -> list[str]:
    """Return the classes that a docstring implements, or sends its reader to."""
    return re.findall(r"\b(?:Implements|See) `?([A-Z][a-z]+[A-Z]?\w*)`?(?=[.:,]| and)", docstring)


def length(node: Function) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def class_names(path: Path) -> list[str]:
    return [node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]


def repeated_classes(tree: Path) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for path in sorted(tree.rglob("*.py")):
        for name in class_names(path):
            places.setdefault(name, []).append(path.relative_to(tree).as_posix())
    return {name: where for name, where in places.items() if len(where) > 1}


def words(name: str) -> list[str]:
    """Split snake_case and CamelCase into lower-case words, without a plural s."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return [word.lower().removesuffix("s") for word in found]


def declared_exports(module: ast.Module) -> list[str] | None:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                return list(ast.literal_eval(value))
    return None


def public_names(module: ast.Module) -> set[str]:
    """Return the names that a package defines or imports from strandline, private ones left out."""
    names: set[str] = set()
    for node in top_level(module):
        match node:
            case ast.ImportFrom(module=source, names=aliases, level=level):
                if level or (source or "").split(".")[0] == "strandline":
                    names.update(alias.asname or alias.name for alias in aliases)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def top_level(module: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module; of one that imports its names lazily, also what
    only type checkers see: that says which names they are."""
    is_lazy = any(
        isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
        for node in ast.walk(module)
    )
    for node in module.body:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body) if is_lazy:
                yield from body
            case _:
                yield node


def imported_modules(module: ast.Module) -> list[str]:
    """Return the modules that are imported, or from which something is."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


def private_in(module: str) -> str | None:
    """Return the room to which a module of ours is private; None for any other, and the core."""
    parent, _, name = module.rpartition(".")
    is_private = name.startswith("_") and parent.startswith("strandline.")
    return parent.replace(".", "/") if is_private else None


def builtin_open_lines(module: ast.Module) -> Iterator[int]:
    defined = {node.name for node in module.body if isinstance(node, Function)}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if "open" in defined | imported:
        return
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and node.id == "open":
            yield node.lineno


def each_test(module: ast.Module) -> Iterator[Function]:
    for node in ast.walk(module):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


def tags_of(test: Function) -> set[str]:
    """Return tags such as TD7 from a test's docstring, and td7 from its name."""
    from_name = [word.upper() for word in test.name.split("_")]
    from_docstring = re.findall(r"\b[TW][A-Z]\d+\b", ast.get_docstring(test) or "")
    return {*from_name, *from_docstring}


def wanted_tags() -> Iterator[str]:
    for chapter, (tests, weaknesses) in CHAPTERS_DONE.items():
        yield from (f"T{chapter}{number}" for number in range(1, tests + 1))
        yield from (f"W{chapter}{number}" for number in range(1, weaknesses + 1))
