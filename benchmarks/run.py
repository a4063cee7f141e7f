"""One run: measure, print, keep, judge."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.entry import Entry
from benchmarks.machine import machine, versions
from benchmarks.measure import measure
from benchmarks.results import Results, load, merged, save
from benchmarks.table import shortfalls, table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
SCRATCH = ROOT / ".tmp"

CLEAR_LINE = "\r\033[K"


def run(entries: Sequence[Entry], environ: Mapping[str, str], path: Path = RESULTS) -> int:
    """Measure what the environment asks for; return the exit code.

    The machine and the versions in the file are those of the latest run.
    """
    only = environ.get("STRANDLINE_BENCH_ONLY", "")
    bars = environ.get("STRANDLINE_BENCH_BARS", "")
    chosen = [entry for entry in entries if entry.name.startswith(only)]
    if not chosen or bars not in {"", "strict"}:
        names = ", ".join(entry.name for entry in entries)
        print(f"ONLY begins one of {names}; BARS is strict or not given.", file=sys.stderr)
        return 2
    results = _measure_all(chosen)
    earlier = load(path) if only else None
    if earlier is not None:
        _tell_if_elsewhere(earlier, results)
        results = Results(
            machine=results.machine,
            versions=results.versions,
            entries=merged(earlier.entries, results.entries),
        )
    save(results, path)
    measured = [result for result in results.entries if result.name.startswith(only)]
    short = shortfalls(measured)
    print(table(measured))
    print("\nBars that fall short:" if short else "\nEvery bar holds.")
    for line in short:
        print(f"  {line}")
    return 1 if short and bars == "strict" else 0


def _measure_all(entries: Sequence[Entry]) -> Results:
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH) as folder:
        scratch = Path(folder)
        measured = [
            measure(entry, scratch, partial(_progress, f"{number} of {len(entries)}  "))
            for number, entry in enumerate(entries, 1)
        ]
        _progress("", "")
        return Results(machine=machine(scratch), versions=versions(), entries=measured)


def _progress(place: str, line: str) -> None:
    if sys.stderr.isatty():
        print(f"{CLEAR_LINE}{place}{line}", end="", file=sys.stderr, flush=True)


def _tell_if_elsewhere(earlier: Results, later: Results) -> None:
    if (earlier.machine, earlier.versions) != (later.machine, later.versions):
        print("The entries kept were measured on another machine or with other versions.\n")
