"""A view's health at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from strandline.values import StrandlineError


class Readiness(StrEnum):
    """Whether a partition answers."""

    NOT_READY = "not ready"
    READY = "ready"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """One assigned partition. Does not read the log: `end` is the last known end."""

    readiness: Readiness
    first: int
    """The oldest offset in the state; above 0 if the topic was trimmed."""
    applied: int
    """The last offset applied; -1 if there is none."""
    committed: int
    """The last offset in the snapshot; -1 if there is none."""
    target: int | None
    """The offset up to which it must read to be ready; None while unknown."""
    end: int
    """The last known end of the partition."""
    quarantined: Mapping[int, str]
    """For each quarantined record: its offset, and the reason."""
    fault: StrandlineError | None
    """Why it cannot be read at the moment, or why it has stopped."""

    @property
    def lag(self) -> int:
        """How many records it is behind the last known end."""
        return max(0, self.end - self.applied - 1)


@dataclass(frozen=True, slots=True)
class ViewHealth:
    """A whole view."""

    is_running: bool
    """Whether its pump is running, or will start with the first assignment."""
    cause: BaseException | None
    """The error that ended the pump, unless it was closed."""
    snapshot_fault: BaseException | None
    """Why the latest snapshot could not be read or written; retried automatically."""
    partitions: Mapping[int, PartitionHealth]

    @property
    def is_healthy(self) -> bool:
        """Whether it runs, and each partition answers and has no quarantined record."""
        return (
            self.is_running
            and self.snapshot_fault is None
            and all(
                each.readiness is Readiness.READY and each.fault is None and not each.quarantined
                for each in self.partitions.values()
            )
        )
