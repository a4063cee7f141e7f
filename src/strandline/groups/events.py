"""Events about a member's partitions."""

from dataclasses import dataclass
from typing import TypeAlias

from strandline.values import Offset, Partition


@dataclass(frozen=True, slots=True)
class Assigned:
    """This member holds a partition from now on."""

    partition: Partition
    generation: int
    cursor: Offset
    """The offset at which reading begins."""
    reason: str
    """Why the partition was assigned."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A partition goes to another member, or has gone.

    Unless `is_lost`, this member still holds it: no further records are delivered, delivered
    ones can be acked, and it is handed over once all are settled, or after the time of a lease.
    """

    partition: Partition
    generation: int
    reason: str
    is_lost: bool
    """Whether it is gone already, so that acks are refused."""


AssignmentEvent: TypeAlias = Assigned | Revoked
