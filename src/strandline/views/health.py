"""How a view is doing, at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from strandline.values import StrandlineError


class Readiness(StrEnum):
    """What a partition answers."""

    NOT_READY = "not ready"
    READY = "ready"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """One assigned partition. Does not read the log: `end` is what was last seen."""

    readiness: Readiness
    first: int
    """The oldest offset that the state was folded from; above 0 where the topic was trimmed."""
    applied: int
    """The last offset applied; -1 if none is."""
    committed: int
    """The last offset in the snapshot; -1 if there is none."""
    target: int | None
    """Up to where it has to read to be ready; None as long as that is unknown."""
    end: int
    """The last known end of the partition."""
    quarantined: Mapping[int, str]
    """Offset to reason, for each record that was set aside."""
    fault: StrandlineError | None
    """Why it cannot be read at the moment, or why it has stopped."""

    @property
    def lag(self) -> int:
        """How many records it is behind what was last seen."""
        return max(0, self.end - self.applied - 1)


@dataclass(frozen=True, slots=True)
class ViewHealth:
    """A whole view."""

    is_running: bool
    """Whether its pump works, or will with the first assignment."""
    cause: BaseException | None
    """What ended the pump, unless it was closed."""
    snapshot_fault: BaseException | None
    """Why the latest snapshot could not be read or written; tried again by itself."""
    partitions: Mapping[int, PartitionHealth]

    @property
    def is_healthy(self) -> bool:
        """Whether it runs, and each partition answers and has nothing set aside."""
        return (
            self.is_running
            and self.snapshot_fault is None
            and all(
                each.readiness is Readiness.READY and each.fault is None and not each.quarantined
                for each in self.partitions.values()
            )
        )
