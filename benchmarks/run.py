"""One run: measures, prints, stores, and compares with the bars."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.entry import Entry
from benchmarks.machine import machine, versions
from benchmarks.measure import measure
from benchmarks.other_work import share_of_others
from benchmarks.results import Result, Results, load, merged, save
from benchmarks.table import shortfalls, table, too_busy

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
SCRATCH = ROOT / ".tmp"

CLEAR_LINE = "\r\033[K"


def run(
    entries: Sequence[Entry],
    environ: Mapping[str, str],
    path: Path = RESULTS,
    others: Callable[[], float] = share_of_others,
) -> int:
    """Measure what the environment asks for; return the exit code.

    The machine and the versions in the file are those of the latest run.
    """
    only = environ.get("STRANDLINE_BENCH_ONLY", "")
    bars = environ.get("STRANDLINE_BENCH_BARS", "")
    names = [entry.name for entry in entries]
    chosen = [entry for entry in entries if entry.name.startswith(only)]
    if not chosen or bars not in {"", "strict"}:
        wanted = f"ONLY begins one of {', '.join(names)}; BARS is strict or not given."
        print(wanted, file=sys.stderr)
        return 2
    for entry in chosen:
        if entry.missing is not None:
            print(f"{entry.name} is left out: {entry.missing}", file=sys.stderr)
    measured: list[Result] = []
    for result in _measured([each for each in chosen if each.missing is None], others):
        measured.append(result)
        _keep(names, measured, path)
    short, unmeasured = shortfalls(measured), too_busy(measured)
    print(table(measured))
    print("\nBars that fall short:" if short else "\nEvery measured bar was reached.")
    for line in short:
        print(f"  {line}")
    if unmeasured:
        print("\nOther programs kept the machine busy. Neither reached nor missed, measure again:")
        print("  " + ", ".join(unmeasured))
    return 1 if (short or unmeasured) and bars == "strict" else 0


def _measured(entries: Sequence[Entry], others: Callable[[], float]) -> Iterator[Result]:
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH) as folder:
        for number, entry in enumerate(entries, 1):
            place = f"{number} of {len(entries)}  "
            yield measure(entry, Path(folder), partial(_progress, place), others)
        _progress("", "")


def _keep(names: Sequence[str], measured: Sequence[Result], path: Path) -> None:
    """Store what was measured so far, in case the run is stopped."""
    earlier = load(path)
    now = Results(machine=machine(SCRATCH), versions=versions(), entries=measured)
    if earlier is not None:
        if len(measured) == 1:
            _warn_if_elsewhere(earlier, now)
        entries = merged(names, earlier.entries, measured)
        now = Results(machine=now.machine, versions=now.versions, entries=entries)
    save(now, path)


def _progress(place: str, line: str) -> None:
    if sys.stderr.isatty():
        print(f"{CLEAR_LINE}{place}{line}", end="", file=sys.stderr, flush=True)


def _warn_if_elsewhere(earlier: Results, later: Results) -> None:
    if (earlier.machine, earlier.versions) != (later.machine, later.versions):
        print("The entries kept were measured on another machine or with other versions.\n")
