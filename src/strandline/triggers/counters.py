"""Counts of the outcomes of a trigger's records."""

from dataclasses import astuple, dataclass
from typing import Self

from strandline.triggers.settling import Verdict


@dataclass(slots=True)
class Counters:
    """Counts since the trigger began to run. Waiting records are not in flight."""

    handled: int = 0
    """Calls that returned."""
    retried: int = 0
    """Failures after which the record is retried."""
    dead_lettered: int = 0
    deduplicated: int = 0
    """Records skipped because their de-duplication key was handled already."""
    passed_over: int = 0
    """Records skipped because the predicate does not match."""
    lost: int = 0
    """Records whose partition went to another process before they were settled."""
    in_flight: int = 0
    """Calls that are running now."""

    def count(self, verdict: Verdict) -> None:
        """Count the outcome of one delivery."""
        name = verdict.value
        setattr(self, name, getattr(self, name) + 1)

    def __iadd__(self, other: "Counters") -> Self:
        for name, count in zip(self.__slots__, astuple(other), strict=True):
            setattr(self, name, getattr(self, name) + count)
        return self
