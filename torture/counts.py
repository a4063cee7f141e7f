"""How often each torture has passed, over any number of runs: torture/counts.json.

A run goes on with the seeds that follow, and adds to the count. Of each count the file has the
days and commits of its first and its last run. Remove an entry to begin it again.
"""

import contextlib
import fcntl
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tools.this_run import ROOT, Run, this_run

COUNTS = ROOT / "torture" / "counts.json"


class Count(msgspec.Struct):
    """What became of the seeds of one torture."""

    first: Run
    last: Run
    next_seed: int
    full: int
    """How many seeds are the full count."""
    passed: int = 0
    failed: int = 0


class AlreadyCountingError(Exception):
    """Another torture counts in the same file: each would overwrite what the other one saves."""


@contextlib.contextmanager
def counting(path: Path = COUNTS) -> Iterator["Counts"]:
    """Give the counts to one torture at a time; AlreadyCountingError to a second one."""
    with path.parent.joinpath(f"{path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyCountingError(
                "another torture counts here: wait for it, or give a SEED, which does not count"
            ) from None
        yield Counts(path)


class Counts:
    """The counts, by the names of the tortures."""

    def __init__(self, path: Path = COUNTS, run: Run | None = None) -> None:
        self._path = path
        self._run = run if run is not None else this_run()
        self._found = load(path)

    def seeds(self, name: str, full: int, first: int) -> range:
        """Return the seeds that are left of a full count; `first` begins one."""
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
        """Store the counts of what was run."""
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
