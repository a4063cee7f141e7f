"""A consumer group as it is kept in its topic's keyed area. See design 0092.

Each group is one value, replaced by compare-and-set: its members, and which of them holds
which partition. The cursors are stored beside it, each with the generation of its holder.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from strandline.values import CorruptError, Tenant

GROUPS_PREFIX: Final = "groups/"
QUEUES_PREFIX: Final = "queues/"


class StoredMember(msgspec.Struct, frozen=True, omit_defaults=True):
    """One member, with its lease."""

    id: str
    host: str
    pid: int
    started_at_us: int
    lease_s: float
    beat: int
    """Rises with each renewal. The lease expires if it has not risen for `lease_s`, by the
    monotonic clock of the process that checks it; wall clocks play no part."""
    seen_at_us: int
    """When it was last renewed, to show to people."""
    is_manual: bool = False
    """Whether it was assigned its partitions by hand, and is given no others."""
    is_shared: bool = False
    """Whether it is a member of a work queue, which shares records and holds no partition."""

    @property
    def place(self) -> str:
        """Where it runs."""
        return f"{self.host}:{self.pid}"

    def is_live_at(self, now_us: int) -> bool:
        """Whether its lease has not expired by the wall clock; to show to people."""
        return now_us <= self.seen_at_us + self.lease_s * 1_000_000


class StoredHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which member holds a partition, and why it moved there."""

    partition: int
    generation: int
    member: str | None
    """None while no member holds it."""
    since_us: int
    reason: str


_partition = attrgetter("partition")


class StoredGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole group."""

    tenant: str | None
    name: str
    generation: int = 0
    """The highest generation used so far."""
    members: tuple[StoredMember, ...] = ()
    holds: tuple[StoredHold, ...] = ()
    """Sorted by partition."""

    def member(self, member_id: str | None) -> StoredMember | None:
        """Return a member."""
        return next((each for each in self.members if each.id == member_id), None)

    def hold(self, partition: int) -> StoredHold | None:
        """Return the hold of a partition: its holder, or the last one."""
        at = bisect_left(self.holds, partition, key=_partition)
        found = self.holds[at : at + 1]
        return found[0] if found and found[0].partition == partition else None

    def held_by(self, member_id: str) -> list[int]:
        """Return the partitions that a member holds, ascending."""
        return sorted(each.partition for each in self.holds if each.member == member_id)

    def with_member(self, member: StoredMember) -> Self:
        """Return the group with this member, in place of one of the same id."""
        others = (each for each in self.members if each.id != member.id)
        members = tuple(sorted((*others, member), key=lambda each: each.id))
        return replace(self, members=members)

    def with_holds(self, holds: Iterable[StoredHold]) -> Self:
        """Return the group with these holds, in place of those of the same partitions."""
        known = {each.partition: each for each in self.holds}
        known.update((each.partition, each) for each in holds)
        return replace(self, holds=tuple(known[number] for number in sorted(known)))

    def given(self, member_id: str, partitions: Iterable[int], now_us: int, reason: str) -> Self:
        """Return the group with these partitions held by a member, in a new generation."""
        generation = self.generation + 1
        taken = [
            StoredHold(number, generation, member_id, now_us, self._reason(number, reason))
            for number in partitions
        ]
        return replace(self.with_holds(taken), generation=generation)

    def released(self, partitions: Iterable[int], now_us: int, reason: str) -> Self:
        """Return the group with these partitions held by no member."""
        holds = (self.hold(number) for number in partitions)
        return self.with_holds(
            StoredHold(each.partition, each.generation, None, now_us, reason)
            for each in holds
            if each is not None
        )

    def without_member(self, member_id: str, now_us: int, reason: str) -> Self:
        """Return the group without a member, and with its partitions released."""
        members = tuple(each for each in self.members if each.id != member_id)
        found = self.released(self.held_by(member_id), now_us, reason)
        return replace(found, members=members)

    def _reason(self, partition: int, reason: str) -> str:
        # The reason of the release explains why the partition moved.
        last = self.hold(partition)
        return reason if last is None or last.member is not None else last.reason


_decode = msgspec.json.Decoder(StoredGroup).decode
encode_group: Final = msgspec.json.encode


def group_key(tenant: Tenant | None, name: str) -> str:
    """Return the key of a group."""
    return f"{GROUPS_PREFIX}{tenant or ''}/{name}"


def queue_key(tenant: Tenant | None, name: str, partition: int) -> str:
    """Return the key of one partition of a work queue. See design 0096."""
    return f"{QUEUES_PREFIX}{tenant or ''}/{name}/{partition}"


def decode_group(raw: bytes | None, tenant: Tenant | None, name: str) -> StoredGroup:
    """Return the group; an empty one for no value, CorruptError for anything else."""
    if raw is None:
        return StoredGroup(tenant, name)
    key = group_key(tenant, name)
    try:
        stored = _decode(raw)
    except msgspec.MsgspecError as error:
        raise CorruptError("this group cannot be read", file=key, position=0) from error
    if (stored.tenant, stored.name) != (tenant, name):
        raise CorruptError("this group is of another consumer", file=key, position=0)
    return stored


def group_among(kept: Mapping[str, bytes], tenant: Tenant | None, name: str) -> StoredGroup:
    """Return the group, given all values of its topic's keyed area."""
    return decode_group(kept.get(group_key(tenant, name)), tenant, name)
