"""The numbers a store may tune."""

from __future__ import annotations

import math
from dataclasses import dataclass

from strandline.values import InvalidError

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A coordinator's limits, and when it flushes automatically."""

    #: Writes that one channel queues before it applies back-pressure.
    queue_capacity: int = 10_000
    #: Seconds after a freeze at which applied writes are flushed without a request.
    flush_interval_s: float = 10.0
    #: Size of the delta at which it is flushed without a request.
    flush_bytes: int = 64 * MIB
    #: Total size of frozen, unflushed deltas at which no more writes are taken.
    frozen_bytes_max: int = 256 * MIB
    #: Seconds that a write without a deadline waits for the bracket.
    bracket_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InvalidError("settings must be positive numbers", **{name: value})
