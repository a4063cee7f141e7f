"""An entry: what is measured, its peers, and the bars."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

OURS = "ours"
BEST_PEER = "best_peer"
PEER_NAMES = frozenset({"rocksdb", "lmdb", "sqlite"})
ROUNDS_MIN = 3

Contender = Callable[[], float]
"""Runs one round, with set-up and clean-up outside of the timed part; returns its figure."""

now = time.perf_counter
"""The clock of all contenders: monotonic, not adjusted, with the highest resolution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One measurement, of ours and of peers."""

    name: str
    #: A unit that ends in /s is a rate, where more is better; of any other, less is.
    unit: str
    #: Called once with an empty scratch folder; `ours` is one of the contenders.
    contenders: Callable[[Path], Mapping[str, Contender]]
    #: Contender → the least ratio to it that ours has to reach. `best_peer` stands for the
    #: best peer of this entry.
    bars: Mapping[str, float] = field(default_factory=dict)
    rounds: int = ROUNDS_MIN
    #: Why it cannot be measured on this machine; None if it can.
    missing: str | None = None

    def __post_init__(self) -> None:
        assert self.rounds >= ROUNDS_MIN

    def best_peer(self, figures: Mapping[str, float]) -> Mapping[str, float]:
        """Return the best figure of any peer as that of `best_peer`, if a bar asks for it."""
        if BEST_PEER not in self.bars:
            return {}
        peers = [figure for name, figure in figures.items() if name in PEER_NAMES]
        return {BEST_PEER: max(peers) if self.unit.endswith("/s") else min(peers)}

    def ratio(self, ours: float, theirs: float) -> float:
        """Return the ratio of ours to theirs; higher is better."""
        return ours / theirs if self.unit.endswith("/s") else theirs / ours
