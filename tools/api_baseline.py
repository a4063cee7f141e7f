"""Compares the public interface with the stored one, and lists changes that break callers.

    python -m tools.api_baseline            print additions and breaks; exit code 1 for a break
    python -m tools.api_baseline --store    store the present interface

tools/baseline/ has the interface of the last release, a stub for each public room: names,
parameters, defaults, annotations. It is stored again with each release, and before that only for
an intended break that CHANGELOG.md reports. See design 0108.
"""

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import griffe

from tools.api_pages import ROOMS

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "tools" / "baseline"
#: The Python versions of compiled classes.
_PLAIN = {
    "Event": "values._plain_event.Event",
    "Record": "values._plain_record.Record",
}
_SPECIAL = {"__init__", "__enter__", "__aenter__", "__iter__", "__aiter__", "__await__"}
_KIND = griffe.ParameterKind
_STARS = {_KIND.var_positional: "*", _KIND.var_keyword: "**"}
_NOTHING = "    ..."


def stubs(source: Path) -> dict[str, str]:
    """Return the public interface of each room in a folder of sources, as a stub."""
    package = griffe.load("strandline", search_paths=[source], resolve_aliases=True)
    return {room: stub(package, room) for room in ROOMS}


def stub(package: griffe.Object | griffe.Alias, room: str) -> str:
    """Return what one room exports."""
    module = package[room.partition(".")[2]] if "." in room else package
    assert module.exports, f"{room} has no __all__"
    lines: list[str] = []
    for name in sorted(str(each) for each in module.exports):
        lines += _member(name, package[_PLAIN[name]] if name in _PLAIN else module[name], "")
    return "\n".join(lines) + "\n"


def _member(name: str, found: griffe.Object | griffe.Alias, indent: str) -> Iterator[str]:
    target = found.final_target if isinstance(found, griffe.Alias) else found
    if isinstance(target, griffe.Class):
        yield from _class(name, target, indent)
    elif isinstance(target, griffe.Function):
        for each in target.overloads or [target]:
            if target.overloads:
                yield f"{indent}@overload"
            yield indent + _function(name, each)
    else:
        annotation = getattr(target, "annotation", None)
        yield f"{indent}{name}: {annotation or 'Any'}"


def _class(name: str, found: griffe.Class, indent: str) -> Iterator[str]:
    yield f"{indent}class {name}:"
    inner = indent + "    "
    is_empty = True
    # Inherited members are part of the interface, too.
    for each, member in sorted({**found.inherited_members, **found.members}.items()):
        if each.startswith("_") and each not in _SPECIAL:
            continue
        is_empty = False
        yield from _member(each, member, inner)
    if is_empty:
        yield indent + _NOTHING


def _function(name: str, found: griffe.Function) -> str:
    returned = f" -> {found.returns}" if found.returns else ""
    word = "async def" if "async" in found.labels else "def"
    return f"{word} {name}({', '.join(_parameters(found))}){returned}: ..."


def _parameters(found: griffe.Function) -> Iterator[str]:
    has_star = False
    parameters = list(found.parameters)
    for number, each in enumerate(parameters):
        if each.kind is _KIND.keyword_only and not has_star:
            has_star = True
            yield "*"
        has_star = has_star or each.kind is _KIND.var_positional
        stars = _STARS.get(each.kind, "")
        annotation = f": {each.annotation}" if each.annotation else ""
        has_default = each.default is not None and not stars
        yield f"{stars}{each.name}{annotation}{f' = {each.default}' if has_default else ''}"
        following = parameters[number + 1 : number + 2]
        if each.kind is _KIND.positional_only and not (
            following and following[0].kind is _KIND.positional_only
        ):
            yield "/"


def breaks(room: str, old: str, new: str) -> list[str]:
    """Return the changes of a room that break callers of the old interface."""
    name = room.replace(".", "_")
    before, after = (griffe.visit(name, Path(f"{name}.py"), each) for each in (old, new))
    return [f"{room}: {_words(each)}" for each in griffe.find_breaking_changes(before, after)]


def _words(change: griffe.Breakage) -> str:
    values = (change.old_value, change.new_value)
    named = [each.name for each in values if isinstance(each, griffe.Parameter)]
    place = change.obj.path.partition(".")[2] + (f"({named[0]})" if named else "")
    return f"{place}: {change.kind.value}"


def stored() -> dict[str, str]:
    """Return the stored interface."""
    return {room: _file(room).read_text() for room in ROOMS if _file(room).exists()}


def _file(room: str) -> Path:
    return BASELINE / f"{room}.txt"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Compare the interface with the stored one.")
    parser.add_argument("--store", action="store_true", help="make the present one the stored one")
    options = parser.parse_args(arguments)
    present, before = stubs(ROOT / "src"), stored()
    if options.store:
        for room, text in present.items():
            _file(room).write_text(text)
        print(f"Stored {len(present)} rooms in {BASELINE.relative_to(ROOT)}.")
        return 0
    broken = []
    for room, text in present.items():
        old = before.get(room, "")
        diff = difflib.ndiff(old.splitlines(), text.splitlines())
        for each in diff:
            if each[0] in "+-":
                print(f"{room}: {each}")
        broken += breaks(room, old, text)
    gone = [f"{room}: the room was removed" for room in before.keys() - present.keys()]
    if not (broken or gone):
        print("No public name was removed or changed.")
        return 0
    print("\nThis breaks callers:", *broken, *gone, sep="\n  ")
    print("Keep the old name or parameter, or report it in CHANGELOG.md and run with --store.")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
