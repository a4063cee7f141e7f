"""What happens to a member's partitions, for those that watch it."""

from dataclasses import dataclass
from typing import TypeAlias

from strandline.values import Offset, Partition


@dataclass(frozen=True, slots=True)
class Assigned:
    """This member holds a partition from now on."""

    partition: Partition
    generation: int
    cursor: Offset
    """Where it begins."""
    reason: str
    """Why the partition came."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A partition goes to another member, or has gone.

    Unless `is_lost`, this member still holds it: nothing more of it is delivered, what was
    delivered can be acked, and it is handed over once that is done, or the time of a lease
    is up.
    """

    partition: Partition
    generation: int
    reason: str
    is_lost: bool
    """Whether it is gone already: acks are refused."""


AssignmentEvent: TypeAlias = Assigned | Revoked
