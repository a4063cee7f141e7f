"""How long an event takes from its publisher to its subscribers."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import quantiles

from benchmarks.entry import now
from benchmarks.events import Sample

EVENTS_PER_S = 1_000


class Rounds:
    """Rounds from which several entries take a percentile; each entry uses each round once.

    So a median and a 99th percentile come from the same deliveries, measured once.
    """

    def __init__(self, deliver: Callable[[Path], list[float]]) -> None:
        self._deliver = deliver
        self._rounds: list[list[float]] = []
        self._taken: dict[int, int] = {}

    def percentile(self, percentile: int, scratch: Path) -> float:
        """Return a percentile of the next round, which is measured unless another entry has."""
        number = self._taken.get(percentile, 0)
        if number == len(self._rounds):
            self._rounds.append(self._deliver(scratch))
        self._taken[percentile] = number + 1
        return quantiles(self._rounds[number], n=100, method="inclusive")[percentile - 1]


def publish(append: Callable[[Sample], object], events: Iterable[Sample]) -> list[float]:
    """Append a thousand events a second; return when each append began."""
    begun = []
    due = now()
    for sample in events:
        due += 1 / EVENTS_PER_S
        if (rest_s := due - now()) > 0:
            time.sleep(rest_s)
        begun.append(now())
        append(sample)
    return begun


def latencies_us(begun: list[float], received: Iterable[list[float]]) -> list[float]:
    """Return the latency of each delivery, of every event to every subscriber.

    The clock is the same in all processes of a machine.
    """
    return [
        1e6 * (then - start) for mine in received for start, then in zip(begun, mine, strict=True)
    ]
