"""The file results.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tools.this_run import Run


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one entry: medians, and the ratios of ours to each peer."""

    name: str
    unit: str
    ours: float
    beside: Mapping[str, float]
    ratios: Mapping[str, float]
    bars: Mapping[str, float]
    #: Whether each bar was reached; None if other programs kept the machine busy.
    holds: bool | None
    rounds: int
    #: The highest figure of a contender less its lowest, as a share of its median.
    spread: Mapping[str, float]
    #: The share of the machine that other programs took.
    others: float
    run: Run


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All of results.json."""

    machine: Mapping[str, str | int | float]
    versions: Mapping[str, str]
    entries: Sequence[Result]


def load(path: Path) -> Results | None:
    """Return what an earlier run wrote, if there was one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except FileNotFoundError:
        return None


def save(results: Results, path: Path) -> None:
    """Write results.json in a form that reads well as a diff."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")


def merged(
    names: Sequence[str], earlier: Sequence[Result], later: Sequence[Result]
) -> list[Result]:
    """Return the latest result of each of these names that has one, in their order."""
    latest = {result.name: result for result in (*earlier, *later)}
    return [latest[name] for name in names if name in latest]
