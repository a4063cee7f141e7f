"""Counters of one coordinator's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: One write, freeze or flush of so many is measured, the first among them: a power of two.
SAMPLED_EVERY: Final = 64
#: Of an epoch, the bits that are 0 where a sample is taken.
SAMPLE_MASK: Final = SAMPLED_EVERY - 1
_BUCKETS: Final = 40


class FlushReason(StrEnum):
    """What made a delta be frozen."""

    WAIT = "wait"
    EXPLICIT = "explicit"
    INTERVAL = "interval"
    SIZE = "size"
    BRACKET = "bracket"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Distribution:
    """How large a sample of measured values was. Times are in whole microseconds."""

    count: int
    total: int
    largest: int
    buckets: tuple[int, ...]
    """How many values had so many binary digits: 0, then 1, 2 to 3, 4 to 7, and so on."""

    @property
    def mean(self) -> float:
        """The average; 0 if nothing was measured."""
        return self.total / self.count if self.count else 0.0


class Tally:
    """Collects a distribution. Values of two threads at once may count as one."""

    __slots__ = ("_buckets", "_count", "_largest", "_total")

    def __init__(self) -> None:
        self._count = self._total = self._largest = 0
        self._buckets = [0] * _BUCKETS

    def add(self, value: int) -> None:
        """Count a value."""
        self._count += 1
        self._total += value
        self._largest = max(self._largest, value)
        self._buckets[min(value.bit_length(), _BUCKETS - 1)] += 1

    def add_s(self, seconds: float) -> None:
        """Count a time."""
        self.add(max(0, int(seconds * 1_000_000)))

    def distribution(self) -> Distribution:
        """Return what was collected so far."""
        return Distribution(self._count, self._total, self._largest, tuple(self._buckets))


class Measurements:
    """What one coordinator measures, of one in SAMPLED_EVERY."""

    __slots__ = ("apply", "delta_bytes", "flush", "freeze", "send")

    def __init__(self) -> None:
        self.send = Tally()
        self.apply = Tally()
        self.freeze = Tally()
        self.flush = Tally()
        self.delta_bytes = Tally()


@dataclass(frozen=True, slots=True)
class Metrics:
    """The counters at one moment; each only grows, except the queue depth.

    The distributions are of a sample: one in SAMPLED_EVERY.
    """

    queue_depth: Mapping[str, int]
    applied: int
    rejected: int
    backpressure: int
    flushes: Mapping[FlushReason, int]
    flush_s: float
    syncs: int
    sync_s: float
    send: Distribution
    """How long `write` took, up to the level that it was to wait for."""
    apply: Distribution
    freeze: Distribution
    flush: Distribution
    delta_bytes: Distribution
    """How large deltas were that were flushed."""
