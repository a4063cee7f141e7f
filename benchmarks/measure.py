"""Measures contenders in alternation, and computes medians and ratios."""

import gc
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from benchmarks.entry import BEST_PEER, OURS, Contender, Entry
from benchmarks.other_work import BUSY_SHARE
from benchmarks.results import Result
from tools.this_run import this_run

Progress = Callable[[str], None]


def measure(
    entry: Entry,
    scratch: Path,
    progress: Progress,
    others: Callable[[], float],
) -> Result:
    """Measure one entry; what its contenders leave in `scratch` is removed.

    `others` is called before each round, for the share of the machine that other programs use.
    """
    with tempfile.TemporaryDirectory(prefix=f"{entry.name}-", dir=scratch) as folder:
        contenders = entry.contenders(Path(folder))
        assert OURS in contenders
        assert entry.bars.keys() <= contenders.keys() - {OURS} | {BEST_PEER}
        rounds, taken = _rounds(entry, contenders, progress, others)
    figures = {name: median(each) for name, each in rounds.items()}
    ours = figures.pop(OURS)
    figures |= entry.best_peer(figures)
    # Rounded before they are compared with the bars, so that results.json is consistent.
    ratios = {name: round(entry.ratio(ours, theirs), 3) for name, theirs in figures.items()}
    is_reached = all(ratios[name] >= bar for name, bar in entry.bars.items())
    return Result(
        name=entry.name,
        unit=entry.unit,
        ours=round(ours, 3),
        beside={name: round(figure, 3) for name, figure in figures.items()},
        ratios=ratios,
        bars=dict(entry.bars),
        holds=None if entry.bars and taken >= BUSY_SHARE else is_reached,
        rounds=entry.rounds,
        spread={name: round(_spread(each), 3) for name, each in rounds.items()},
        others=round(taken, 3),
        run=this_run(),
    )


def _rounds(
    entry: Entry,
    contenders: Mapping[str, Contender],
    progress: Progress,
    others: Callable[[], float],
) -> tuple[dict[str, list[float]], float]:
    """Return the figures of each contender, and the median share of others.

    A round to warm up comes first, and is not counted.
    """
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    shares: list[float] = []
    try:
        for number in range(entry.rounds + 1):
            shares.append(others())
            for name in _rotated(list(contenders), number):
                progress(f"{entry.name}  round {number} of {entry.rounds}  {name}")
                figure = _one_round(contenders[name])
                if number > 0:
                    figures[name].append(figure)
    finally:
        gc.unfreeze()
    return figures, median(shares)


def _spread(figures: list[float]) -> float:
    return (max(figures) - min(figures)) / median(figures)


def _rotated(names: list[str], by: int) -> list[str]:
    """Change the order: the load of other programs and the previous contender have effects."""
    first = by % len(names)
    return names[first:] + names[:first]


def _one_round(contender: Contender) -> float:
    # The collector stays on, as in any program, so that each contender pays for its garbage.
    # Existing objects are frozen, so that no collection has to traverse the events.
    gc.collect()
    gc.freeze()
    return contender()
