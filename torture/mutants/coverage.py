"""Which tests run which lines, and how long they take."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import coverage
import msgspec
import pytest

from torture.counts import ROOT
from torture.mutants.children import Watched, in_child, run_item

SAVED = ROOT / ".cache" / "mutants"
#: A test that takes longer is not run on mutants.
LONGEST_S = 5.0
#: How many tests one process runs.
_PART = 50


class Covered(msgspec.Struct, frozen=True):
    """What one test takes, and which lines it runs: a number for each file, whose bits they are."""

    seconds: float
    lines: dict[str, str]

    def runs(self, file: str, line: int) -> bool:
        """Whether the test runs a line of a file."""
        return bool(int(self.lines.get(file, "0"), 16) >> line & 1)


def cover(
    items: list[pytest.Item], source: Path, rooms: tuple[str, ...], saved_as: str
) -> Mapping[str, Covered]:
    """Return what each test covers of the rooms below `source`, by its node's name.

    They run in children, as on a mutant; one that fails there covers nothing.
    """
    path = SAVED / f"{saved_as}.json"
    if path.exists():
        saved = msgspec.json.decode(path.read_bytes(), type=dict[str, Covered])
        return {item.nodeid: saved[item.nodeid] for item in items if item.nodeid in saved}
    found: dict[str, Covered] = {}
    for at in range(0, len(items), _PART):
        part = items[at : at + _PART]
        found.update(_cover_part(part, source, rooms))
        print(f"covered {at + len(part)} of {len(items)} tests", flush=True)
    SAVED.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(found))
    return found


def _cover_part(
    items: list[pytest.Item], source: Path, rooms: tuple[str, ...]
) -> Iterator[tuple[str, Covered]]:
    def run(watched: Watched) -> None:
        lines = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{source}/{room}/*" for room in rooms]
        )
        for item in items:
            lines.erase()
            lines.start()
            start = time.perf_counter()
            has_passed = run_item(item)
            seconds = time.perf_counter() - start
            lines.stop()
            is_used = has_passed and seconds < LONGEST_S
            found = _bits(lines.get_data(), source) if is_used else {}
            watched.tell((item.nodeid, Covered(seconds, found)))

    told = in_child(run)
    for name, covered in told:
        yield name, msgspec.convert(covered, Covered)
    # The next one hung or ended the process.
    if left := items[len(told) + 1 :]:
        yield from _cover_part(left, source, rooms)


def _bits(data: coverage.CoverageData, source: Path) -> dict[str, str]:
    return {
        file.removeprefix(f"{source}/"): f"{sum(1 << line for line in set(lines)):x}"
        for file in data.measured_files()
        if (lines := data.lines(file))
    }
