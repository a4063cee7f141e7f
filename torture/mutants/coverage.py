"""Which tests run which lines, and how long they take."""

import hashlib
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import coverage
import msgspec
import pytest

from tools.this_run import ROOT
from torture.mutants.children import Reporter, in_child, run_item

SAVED = ROOT / ".cache" / "mutants"
#: A test that takes longer is not run on mutants.
LONGEST_S = 5.0
#: How many tests one process runs.
_PART = 50


class Covered(msgspec.Struct, frozen=True):
    """How long one test takes, and which lines it runs: a bit for each line of a file."""

    seconds: float
    lines: dict[str, str]

    @property
    def count(self) -> int:
        """How many lines the test runs."""
        return sum(int(each, 16).bit_count() for each in self.lines.values())

    def runs(self, file: str, line: int) -> bool:
        """Whether the test runs a line of a file."""
        return bool(int(self.lines.get(file, "0"), 16) >> line & 1)


class _Saved(msgspec.Struct):
    """What tests cover, and digests of the files for which that was found."""

    files: dict[str, str]
    tests: dict[str, Covered]


def cover(
    items: list[pytest.Item], source: Path, rooms: tuple[str, ...], saved_as: str
) -> Mapping[str, Covered]:
    """Return what each test covers of the rooms below `source`, by its node's name.

    They run in children, as on a mutant; one that fails there covers nothing. One that ran
    before runs again only if its file, or one that it covers, has changed.
    """
    path = SAVED / f"{saved_as}.json"
    found = _saved(path, source)
    missing = [item for item in items if item.nodeid not in found]
    for at in range(0, len(missing), _PART):
        part = missing[at : at + _PART]
        found.update(_cover_part(part, source, rooms))
        print(f"covered {at + len(part)} of {len(missing)} tests", flush=True)
        _save(path, found, source)
    return {item.nodeid: found[item.nodeid] for item in items if item.nodeid in found}


def _saved(path: Path, source: Path) -> dict[str, Covered]:
    if not path.exists():
        return {}
    saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    same = {file for file, digest in saved.files.items() if _digest(file, source) == digest}
    return {name: each for name, each in saved.tests.items() if same >= _files(name, each)}


def _save(path: Path, tests: dict[str, Covered], source: Path) -> None:
    files = set().union(*(_files(name, each) for name, each in tests.items()))
    digests = {file: _digest(file, source) for file in sorted(files)}
    SAVED.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(_Saved(digests, tests)))


def _files(name: str, covered: Covered) -> set[str]:
    return {name.partition("::")[0], *covered.lines}


def _digest(file: str, source: Path) -> str:
    path = ROOT / file if file.startswith("tests/") else source / file
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _cover_part(
    items: list[pytest.Item], source: Path, rooms: tuple[str, ...]
) -> Iterator[tuple[str, Covered]]:
    if not items:
        return

    def run(reporter: Reporter) -> None:
        # Many tests run nothing of the rooms.
        warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)
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
            reporter.report((item.nodeid, Covered(seconds, found)))

    reports = in_child(run, patience_s=2 * LONGEST_S)
    for name, covered in reports:
        yield name, msgspec.convert(covered, Covered)
    if left := items[len(reports) :]:
        # The first of them hung, or ended the process.
        yield left[0].nodeid, Covered(LONGEST_S, {})
        yield from _cover_part(left[1:], source, rooms)


def _bits(data: coverage.CoverageData, source: Path) -> dict[str, str]:
    return {
        file.removeprefix(f"{source}/"): f"{sum(1 << line for line in set(lines)):x}"
        for file in data.measured_files()
        if (lines := data.lines(file))
    }
