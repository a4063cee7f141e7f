"""Groups: members that share a topic, by leases in the store's keyed area. See design 0092.

Promises: a partition is held by one member at a time, in a generation that only rises, and
whatever a member of an earlier generation stores is refused. A member that leaves releases its
partitions at once. A member that ended is replaced at once if its end can be proved, otherwise
when its lease expires. A partition moves only when it must. No wall clock is involved.

Does not promise that a member that was suspended for longer than its lease does nothing more:
it is refused when it next uses the log.
"""

from strandline.groups.events import Assigned, AssignmentEvent, Revoked
from strandline.groups.keyed import KeyedValue
from strandline.groups.membership import LEASE_S, LEASE_S_MIN, Membership, Plan
from strandline.groups.sightings import Sightings

__all__ = [
    "LEASE_S",
    "LEASE_S_MIN",
    "Assigned",
    "AssignmentEvent",
    "KeyedValue",
    "Membership",
    "Plan",
    "Revoked",
    "Sightings",
]
