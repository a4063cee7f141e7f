"""Which tests run which functions, and how long they take."""

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType

import msgspec
import pytest

from torture.counts import ROOT
from torture.mutants.children import Watched, in_child, run_item

SAVED = ROOT / ".cache" / "mutants"
#: A test that takes longer is not run on mutants.
LONGEST_S = 5.0


class Covered(msgspec.Struct, frozen=True):
    """What one test takes, and which functions it runs: `module file:qualified name`."""

    seconds: float
    functions: list[str]


def cover(items: list[pytest.Item], source: Path, stage: str) -> Mapping[str, Covered]:
    """Return what each test covers of the files below `source`, by its node's name.

    They run in children, as on a mutant; one that fails there covers nothing.
    """
    path = SAVED / f"{stage}.json"
    if path.exists():
        saved = msgspec.json.decode(path.read_bytes(), type=dict[str, Covered])
        return {item.nodeid: saved[item.nodeid] for item in items if item.nodeid in saved}
    found: dict[str, Covered] = {}
    for at in range(0, len(items), 50):
        part = items[at : at + 50]
        found.update(_cover_part(part, source))
        print(f"covered {at + len(part)} of {len(items)} tests", flush=True)
    SAVED.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(found))
    return found


def _cover_part(items: list[pytest.Item], source: Path) -> Iterator[tuple[str, Covered]]:
    def run(watched: Watched) -> None:
        for item in items:
            calls = _Calls()
            start = time.perf_counter()
            with calls:
                has_passed = run_item(item)
            seconds = time.perf_counter() - start
            functions = calls.functions(source) if has_passed and seconds < LONGEST_S else []
            watched.tell((item.nodeid, Covered(seconds, functions)))

    told = in_child(run)
    for name, covered in told:
        yield name, msgspec.convert(covered, Covered)
    # The next one hung or ended the process.
    if left := items[len(told) + 1 :]:
        yield from _cover_part(left, source)


class _Calls:
    """The functions that are called while the block runs."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def __enter__(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def functions(self, source: Path) -> list[str]:
        """Return what was called of the files below `source`."""
        root = f"{source}/"
        return sorted(
            {
                f"{code.co_filename.removeprefix(root)}:{code.co_qualname.partition('.<locals>')[0]}"
                for code in self._codes
                if code.co_filename.startswith(root)
            }
        )
