"""Counters of one coordinator's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FlushReason(StrEnum):
    """What made a delta be frozen."""

    WAIT = "wait"
    EXPLICIT = "explicit"
    INTERVAL = "interval"
    SIZE = "size"
    BRACKET = "bracket"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Metrics:
    """The counters at one moment; each only grows, except the queue depth."""

    queue_depth: Mapping[str, int]
    applied: int
    rejected: int
    backpressure: int
    flushes: Mapping[FlushReason, int]
    flush_s: float
    syncs: int
    sync_s: float
