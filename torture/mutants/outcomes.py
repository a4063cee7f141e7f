"""The outcomes of mutants over any number of runs: torture/mutants.json."""

from collections.abc import Collection
from pathlib import Path

import msgspec

from tools.this_run import ROOT, Run

OUTCOMES = ROOT / "torture" / "mutants.json"

EXPLAINED = ROOT / "torture" / "mutants_explained.json"

#: Function, before and after.
Name = tuple[str, str, str]


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one mutant."""

    function: str
    line: int
    before: str
    after: str
    noticed_by: str | None
    """The test that failed; None if the mutant survived."""
    stage: str
    """The last stage in which it was tried."""
    run: Run

    @property
    def name(self) -> Name:
        """Return what stays the same when lines move."""
        return self.function, self.before, self.after


def load(path: Path = OUTCOMES) -> list[Outcome]:
    """Return the outcomes of all mutants that were tried."""
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=list[Outcome])


def save(outcomes: list[Outcome], path: Path = OUTCOMES) -> None:
    """Store the outcomes, a line for each."""
    lines = b",\n".join(map(msgspec.json.encode, outcomes))
    path.write_bytes(b"[\n" + lines + b"\n]\n")


class Explained(msgspec.Struct, frozen=True):
    """Why no test can notice a mutant."""

    function: str
    before: str
    after: str
    why: str

    @property
    def name(self) -> Name:
        """Return what stays the same when lines move."""
        return self.function, self.before, self.after


def load_explained(path: Path = EXPLAINED) -> dict[Name, Explained]:
    """Return the survivors that were examined: no user can see a difference."""
    found = msgspec.json.decode(path.read_bytes(), type=list[Explained])
    return {each.name: each for each in found}


def table(outcomes: list[Outcome], explained: Collection[Name]) -> str:
    """Return how many mutants of each room were noticed, in Markdown."""
    lines = ["| mutants of | tried | noticed | | survivors explained | others |"]
    lines.append("|---|---|---|---|---|---|")
    rooms = sorted({each.function.partition("/")[0] for each in outcomes})
    for room in rooms:
        tried = [each for each in outcomes if each.function.startswith(f"{room}/")]
        left = [each for each in tried if each.noticed_by is None]
        noticed = len(tried) - len(left)
        known = sum(each.name in explained for each in left)
        counts = f"{noticed} | {noticed / len(tried):.0%} | {known} | {len(left) - known}"
        lines.append(f"| `{room}` | {len(tried)} | {counts} |")
    return "\n".join(lines) + "\n"
