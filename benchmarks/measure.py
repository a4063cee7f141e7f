"""Rounds in turns, and what comes of them."""

import gc
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from benchmarks.entry import BEST_PEER, OURS, Contender, Entry
from benchmarks.results import Result

Progress = Callable[[str], None]


def measure(entry: Entry, scratch: Path, progress: Progress) -> Result:
    """Measure one entry; what its contenders leave in `scratch` is removed."""
    with tempfile.TemporaryDirectory(prefix=f"{entry.name}-", dir=scratch) as folder:
        contenders = entry.contenders(Path(folder))
        assert OURS in contenders
        assert entry.bars.keys() <= contenders.keys() - {OURS} | {BEST_PEER}
        figures = _figures(entry, contenders, progress)
    ours = figures.pop(OURS)
    figures |= entry.best_peer(figures)
    # Rounded before they are held against the bars, so that results.json agrees with itself.
    ratios = {name: round(entry.times_better(ours, theirs), 3) for name, theirs in figures.items()}
    return Result(
        name=entry.name,
        unit=entry.unit,
        ours=round(ours, 3),
        beside={name: round(figure, 3) for name, figure in figures.items()},
        ratios=ratios,
        bars=dict(entry.bars),
        holds=all(ratios[name] >= bar for name, bar in entry.bars.items()),
        rounds=entry.rounds,
    )


def _figures(
    entry: Entry, contenders: Mapping[str, Contender], progress: Progress
) -> dict[str, float]:
    """Return the median figure of each contender, after a round to warm up that is not counted."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    try:
        for number in range(entry.rounds + 1):
            for name in _rotated(list(contenders), number):
                progress(f"{entry.name}  round {number} of {entry.rounds}  {name}")
                figure = _one_round(contenders[name])
                if number > 0:
                    figures[name].append(figure)
    finally:
        gc.unfreeze()
    return {name: median(rounds) for name, rounds in figures.items()}


def _rotated(names: list[str], by: int) -> list[str]:
    """Change who goes first: a neighbour's load and the contender before leave their traces."""
    first = by % len(names)
    return names[first:] + names[:first]


def _one_round(contender: Contender) -> float:
    # The collector stays on, as with any user, so that garbage costs the one that makes it.
    # What was there before is kept out of its sight, so that no collection pays for the events.
    gc.collect()
    gc.freeze()
    return contender()
