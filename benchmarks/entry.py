"""What is measured, beside whom, and the bars."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

OURS = "ours"
BEST_PEER = "best_peer"
PEER_NAMES = frozenset({"rocksdb", "lmdb", "sqlite"})
ROUNDS_MIN = 3

Contender = Callable[[], float]
"""Does one round, prepares and clears away outside the timed part, and returns its figure."""

now = time.perf_counter
"""The clock of all contenders: monotonic, never adjusted, the finest that Python has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing measured, ours beside others."""

    name: str
    #: A unit that ends in /s is a rate, where more is better; of any other, less is.
    unit: str
    #: Called once with an empty scratch folder; `ours` is one of the contenders.
    contenders: Callable[[Path], Mapping[str, Contender]]
    #: Contender → how many times better than it ours shall at least be. `best_peer`
    #: stands for whichever of the peers in this entry is best.
    bars: Mapping[str, float] = field(default_factory=dict)
    rounds: int = ROUNDS_MIN

    def __post_init__(self) -> None:
        assert self.rounds >= ROUNDS_MIN

    def best_peer(self, figures: Mapping[str, float]) -> Mapping[str, float]:
        """Return the best figure of any peer as that of `best_peer`, if a bar asks for it."""
        if BEST_PEER not in self.bars:
            return {}
        peers = [figure for name, figure in figures.items() if name in PEER_NAMES]
        return {BEST_PEER: max(peers) if self.unit.endswith("/s") else min(peers)}

    def times_better(self, ours: float, theirs: float) -> float:
        """Return how many times better `ours` is."""
        return ours / theirs if self.unit.endswith("/s") else theirs / ours
