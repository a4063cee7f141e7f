"""Counters of one coordinator's work."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

#: One of this many writes, freezes or flushes is measured, the first included: a power of two.
SAMPLED_EVERY: Final = 64
#: The bits of an epoch that are 0 if it is measured.
SAMPLE_MASK: Final = SAMPLED_EVERY - 1
_BUCKETS: Final = 40

K = TypeVar("K", bound=str)


class FlushReason(StrEnum):
    """Why a delta was frozen."""

    WAIT = "wait"
    EXPLICIT = "explicit"
    INTERVAL = "interval"
    SIZE = "size"
    BRACKET = "bracket"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of measured values, from a sample. Times are in whole microseconds."""

    count: int
    total: int
    largest: int
    buckets: tuple[int, ...]
    """How many values had this many binary digits: 0, then 1, 2 to 3, 4 to 7, and so on."""

    @property
    def mean(self) -> float:
        """The average; 0 if nothing was measured."""
        return self.total / self.count if self.count else 0.0

    def __add__(self, other: Distribution) -> Distribution:
        return Distribution(
            self.count + other.count,
            self.total + other.total,
            max(self.largest, other.largest),
            tuple(map(operator.add, self.buckets, other.buckets)),
        )


class Tally:
    """Collects a distribution. Two concurrent values may be counted as one."""

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
    """What one coordinator measures, for one of every SAMPLED_EVERY."""

    __slots__ = ("apply", "delta_bytes", "flush", "freeze", "send")

    def __init__(self) -> None:
        self.send: Final = Tally()
        self.apply: Final = Tally()
        self.freeze: Final = Tally()
        self.flush: Final = Tally()
        self.delta_bytes: Final = Tally()


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """The counters at one moment; each only grows, except the queue depth.

    The distributions are samples: one of every SAMPLED_EVERY.
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
    """How long `write` took, including the wait for its level."""
    apply: Distribution
    freeze: Distribution
    flush: Distribution
    delta_bytes: Distribution
    """The sizes of flushed deltas."""

    def with_flushed(self, writes: int) -> WriteMetrics:
        """Return the metrics with writes added that the store flushed itself, one by one."""
        if not writes:
            return self
        bracket = FlushReason.BRACKET
        flushes = {**self.flushes, bracket: self.flushes.get(bracket, 0) + writes}
        return replace(self, applied=self.applied + writes, flushes=flushes)

    def __add__(self, other: WriteMetrics) -> WriteMetrics:
        return WriteMetrics(
            queue_depth=_summed(self.queue_depth, other.queue_depth),
            applied=self.applied + other.applied,
            rejected=self.rejected + other.rejected,
            backpressure=self.backpressure + other.backpressure,
            flushes=_summed(self.flushes, other.flushes),
            flush_s=self.flush_s + other.flush_s,
            syncs=self.syncs + other.syncs,
            sync_s=self.sync_s + other.sync_s,
            send=self.send + other.send,
            apply=self.apply + other.apply,
            freeze=self.freeze + other.freeze,
            flush=self.flush + other.flush,
            delta_bytes=self.delta_bytes + other.delta_bytes,
        )


def merged(each: Iterable[WriteMetrics]) -> WriteMetrics:
    """Return the metrics of several coordinators as one; there is at least one."""
    return functools.reduce(operator.add, each)


def _summed(one: Mapping[K, int], other: Mapping[K, int]) -> Mapping[K, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
