"""The file results.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one entry came to: medians, and how many times better ours is."""

    name: str
    unit: str
    ours: float
    beside: Mapping[str, float]
    ratios: Mapping[str, float]
    bars: Mapping[str, float]
    holds: bool
    rounds: int


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


def merged(earlier: Sequence[Result], later: Sequence[Result]) -> list[Result]:
    """Return `earlier` with `later` in place of the entries of the same name, or at the end."""
    return list({result.name: result for result in (*earlier, *later)}.values())
