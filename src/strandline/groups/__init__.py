"""Groups: members that share a topic, by leases in the store's keyed area. See design 0092.

Promises: a partition is held by one member at a time, in a generation that only rises, and
what a member of an earlier generation stores is refused; a member that leaves gives back at
once, one that ended is succeeded at once where its end can be proved, and after the time of
its lease elsewhere; a partition moves only when it must. No wall clock decides any of it.

Does not promise that a member which was stopped longer than its lease does nothing more: it
is refused once it asks the log.
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
