"""How often each torture has passed, over any number of runs: torture/counts.json.

A run continues with the next seed and adds to the count. Each count has the day and the commit
of its first and of its last run. Remove an entry to begin it again.
"""

import contextlib
import fcntl
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tools.this_run import ROOT, Run, this_run

COUNTS = ROOT / "torture" / "counts.json"


class Count(msgspec.Struct):
    """How many seeds of one torture passed and failed."""

    first: Run
    last: Run
    next_seed: int
    full: int
    """How many seeds make the count full."""
    passed: int = 0
    failed: int = 0


class AlreadyCountingError(Exception):
    """Another run holds the file of the counts; each would overwrite what the other saves."""


@contextlib.contextmanager
def counting(path: Path = COUNTS) -> Iterator["Counts"]:
    """Lock the counts for one run at a time; AlreadyCountingError for a second one."""
    with path.parent.joinpath(f"{path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyCountingError(
                "another run adds to these counts: wait for it, or set SEED, which is not counted"
            ) from None
        yield Counts(path)


class Counts:
    """The counts, by the names of the tortures."""

    def __init__(self, path: Path = COUNTS, run: Run | None = None) -> None:
        self._path = path
        self._run = run if run is not None else this_run()
        self._found = load(path)

    def seeds(self, name: str, full: int, first: int) -> range:
        """Return the seeds that are left until the count is full; a new count begins at `first`."""
        found = self._found.setdefault(name, Count(self._run, self._run, first, full))
        found.last, found.full = self._run, full
        return range(found.next_seed, found.next_seed + max(0, full - found.passed))

    def add(self, name: str, seed: int, *, has_passed: bool) -> None:
        """Count a seed that was run."""
        found = self._found[name]
        found.next_seed = max(found.next_seed, seed + 1)
        if has_passed:
            found.passed += 1
        else:
            found.failed += 1

    def save(self) -> None:
        """Write the counts, without those of which no seed was run."""
        ran = {name: each for name, each in self._found.items() if each.passed or each.failed}
        encoded = msgspec.json.encode(dict(sorted(ran.items())))
        self._path.write_bytes(msgspec.json.format(encoded) + b"\n")


def load(path: Path = COUNTS) -> dict[str, Count]:
    """Return all counts; none if there is no such file."""
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Count])


def table(counts: Mapping[str, Count]) -> str:
    """Return the counts in Markdown."""
    lines = ["| torture | passed | of | failed | from | to |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {name} | {count.passed:,} | {count.full:,} | {count.failed} |"
        f" {count.first} | {count.last} |"
        for name, count in counts.items()
    ]
    return "\n".join(lines) + "\n"
