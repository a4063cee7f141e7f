"""What became of mutants, over any number of runs: torture/mutants.json."""

from pathlib import Path

import msgspec

from torture.counts import ROOT, Run

OUTCOMES = ROOT / "torture" / "mutants.json"


class Outcome(msgspec.Struct, frozen=True):
    """What became of one mutant."""

    function: str
    line: int
    before: str
    after: str
    noticed_by: str | None
    """The test that failed; None if the mutant survived."""
    stage: str
    """The last that it was tried in."""
    run: Run


def load(path: Path = OUTCOMES) -> list[Outcome]:
    """Return what became of the mutants so far."""
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=list[Outcome])


def save(outcomes: list[Outcome], path: Path = OUTCOMES) -> None:
    """Store what became of the mutants, a line for each."""
    lines = b",\n".join(map(msgspec.json.encode, outcomes))
    path.write_bytes(b"[\n" + lines + b"\n]\n")


def table(outcomes: list[Outcome]) -> str:
    """Return how many of each room were noticed, in Markdown."""
    lines = ["| mutants of | tried | noticed | | survivors tried on slow tests too |"]
    lines.append("|---|---|---|---|---|")
    rooms = sorted({each.function.partition("/")[0] for each in outcomes})
    for room in rooms:
        tried = [each for each in outcomes if each.function.startswith(f"{room}/")]
        left = [each for each in tried if each.noticed_by is None]
        noticed = len(tried) - len(left)
        again = sum(each.stage == "rest" for each in left)
        share = f"{noticed / len(tried):.0%}"
        lines.append(f"| `{room}` | {len(tried)} | {noticed} | {share} | {again} of {len(left)} |")
    return "\n".join(lines) + "\n"
