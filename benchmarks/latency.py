"""How long an event takes from its publisher to its subscribers."""

import time
from collections.abc import Callable, Iterable
from statistics import quantiles

from benchmarks.entry import now
from benchmarks.events import Sample

EVENTS_PER_S = 1_000


def publish(append: Callable[[Sample], object], events: Iterable[Sample]) -> list[float]:
    """Append a thousand events a second; return the moment at which each was begun."""
    begun = []
    due = now()
    for sample in events:
        due += 1 / EVENTS_PER_S
        if (rest_s := due - now()) > 0:
            time.sleep(rest_s)
        begun.append(now())
        append(sample)
    return begun


def percentile_us(begun: list[float], received: Iterable[list[float]], percentile: int) -> float:
    """Return that percentile of all deliveries, of every event to every subscriber.

    The clock is the same in all processes of a machine.
    """
    late = [
        1e6 * (then - start) for mine in received for start, then in zip(begun, mine, strict=True)
    ]
    return quantiles(late, n=100, method="inclusive")[percentile - 1]
