"""One member of a consumer group: its lease and its partitions. See design 0092."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from strandline.clock import Clock
from strandline.groups.balance import targets
from strandline.groups.identity import HolderIdentity, ProofsOfLife
from strandline.groups.keyed import KeyedValue
from strandline.groups.sightings import Sightings
from strandline.log import Claim, Log, parts_of
from strandline.log.claims import ConsumerPlace, claimed
from strandline.log.stored_groups import (
    StoredGroup,
    StoredMember,
    decode_group,
    encode_group,
    group_key,
)
from strandline.values import Partition, Tenant, Topic, UnavailableError

LEASE_S: Final = 10.0
"""How long after the last heartbeat another member takes over, by default."""

LEASE_S_MIN: Final = 0.1
"""The shortest lease."""

RENEWALS: Final = 4
"""How many times a lease is renewed during its own duration."""

LOOKS: Final = 10
"""How many times a member looks at its group during its lease."""

_JOINED: Final = "it is the first to hold it"
_SHARED: Final = "a work queue has this name: join it with shared=True, or choose another name"
_NOT_SHARED: Final = "a consumer that is not shared has this name: close it, or choose another name"


class Plan(NamedTuple):
    """What a member has to do after a look at its group."""

    lost: Mapping[int, str]
    """Partitions that it has lost, and the reasons."""
    surplus: Collection[int]
    """Partitions that it holds, and that another member should hold."""
    wanted: Collection[int]
    """Partitions without a holder that this member should hold."""


class Membership:
    """The lease of one member, and its partitions. The caller lets one thread use it at a time."""

    def __init__(
        self,
        log: Log,
        topic: Topic,
        name: str,
        *,
        tenant: Tenant | None,
        lease_s: float,
        clock: Clock,
        partitions: Callable[[], int],
        is_manual: bool,
        is_shared: bool = False,
    ) -> None:
        self.lease_s = lease_s
        self.tick_s: Final = lease_s / LOOKS
        self.held: dict[int, int] = {}
        """Each partition that it holds, with its generation."""
        self.is_manual: bool = is_manual
        self.chosen: frozenset[int] = frozenset()
        """The partitions that a manual member reads."""
        self._is_shared = is_shared
        self._topic = topic
        self._name = name
        self._tenant = tenant
        self._clock = clock
        self._partitions = partitions
        self._me = HolderIdentity.new(clock)
        self._proofs = ProofsOfLife(parts_of(log).store, topic, tenant, name)
        self._proof: Claim | None = None
        self._value = KeyedValue[StoredGroup](
            log,
            topic,
            group_key(tenant, name),
            decode=partial(decode_group, tenant=tenant, name=name),
            encode=encode_group,
        )
        self._sightings = Sightings()
        self._reasons: dict[int, str] = {}
        self._beat = 0
        self._valid_until = float("-inf")
        self._renew_at = float("-inf")

    @property
    def id(self) -> str:
        """The id by which other members know it."""
        return self._me.id

    @property
    def is_valid(self) -> bool:
        """Whether its lease certainly holds, so that no other member can have taken over."""
        return self._clock.monotonic() < self._valid_until

    def look(self) -> Plan:
        """Renew the lease if that is due, remove members that have ended, and make a plan.

        The first look joins the group: UnavailableError if its name is in use by a work queue
        and this is not a member of one, or the reverse. May have to wait.
        """
        if self._proof is None:
            self._proof = self._proofs.give(self._me.id)
        began = self._clock.monotonic()
        group = self._value.get()
        is_due = began >= self._renew_at
        ended = self._ended(group, asks=is_due)
        if is_due or ended or group.member(self._me.id) is None:
            self._beat += 1
            group = self._value.change(partial(self._renewed, ended=ended))
            self._valid_until = began + self.lease_s
            self._renew_at = began + self.lease_s / RENEWALS
        return self._planned(group)

    def take(self, wanted: Collection[int]) -> Mapping[int, int]:
        """Take those of `wanted` that are free and meant for this member; return generations."""

        def given(group: StoredGroup) -> StoredGroup:
            mine = self._wanted(group) & set(wanted)
            if not mine or group.member(self._me.id) is None:
                return group
            return group.given(self._me.id, sorted(mine), self._clock.now_us(), _JOINED)

        return self._taken(self._value.change(given), wanted)

    def choose(self, wanted: Collection[int]) -> Mapping[int, int]:
        """Take all of these as a manual member; UnavailableError if another member holds one."""

        def given(group: StoredGroup) -> StoredGroup:
            holders = _holders(group)
            for number in sorted(wanted):
                holder = holders.get(number)
                if holder is not None and holder.id != self._me.id:
                    place = ConsumerPlace(self._topic, self._tenant, self._name, Partition(number))
                    raise claimed(place, holder.pid, holder.host)
            new = set(wanted) - set(group.held_by(self._me.id))
            if not new:
                return group
            return group.given(self._me.id, sorted(new), self._clock.now_us(), "it was chosen")

        taken = self._taken(self._value.change(given), wanted)
        self.chosen |= taken.keys()
        return taken

    def choose_every(self) -> bool:
        """Choose every partition, as a manual member; return whether that added any."""
        before, self.chosen = self.chosen, self.chosen | frozenset(range(self._partitions()))
        return self.chosen != before

    def raise_generation(self, least: int) -> None:
        """Make later generations exceed `least`, found in a cursor whose group was lost."""

        def raised(group: StoredGroup) -> StoredGroup:
            return StoredGroup(
                group.tenant, group.name, max(group.generation, least), group.members, group.holds
            )

        self._value.change(raised)

    def give_back(self, partitions: Iterable[int], reason: str) -> None:
        """Release these, so that another member can take them at once."""
        mine = {each: self.held.pop(each) for each in partitions if each in self.held}
        if not mine:
            return

        def released(group: StoredGroup) -> StoredGroup:
            still = [
                each.partition
                for each in group.holds
                if each.member == self._me.id and each.generation == mine.get(each.partition)
            ]
            return group.released(still, self._clock.now_us(), f"{self._place} {reason}")

        self._value.change(released)

    def leave(self) -> None:
        """Release all partitions, and leave the group. May be repeated."""
        if self._proof is None or self._me.pid != os.getpid():
            return
        self._valid_until = float("-inf")
        self.held.clear()
        try:
            self._value.change(
                lambda group: group.without_member(
                    self._me.id, self._clock.now_us(), f"{self._place} left"
                )
            )
        finally:
            proof, self._proof = self._proof, None
            proof.release()

    @property
    def _place(self) -> str:
        return f"{self._me.host}:{self._me.pid}"

    def _ended(self, group: StoredGroup, *, asks: bool) -> Mapping[str, tuple[int, str]]:
        """Return the members that have ended, each with its last beat and the reason.

        With `asks`, also those whose lease has not expired but whose process is gone.
        """
        now = self._clock.monotonic()
        others = [each for each in group.members if each.id != self._me.id]
        self._sightings.look(((each.id, each.beat) for each in others), now)
        found = {}
        for each in others:
            if self._sightings.has_expired(each.id, each.lease_s, now):
                found[each.id] = each.beat, f"the lease of {each.place} expired"
            elif asks and self._proofs.has_ended(each.id, each.host, each.pid):
                found[each.id] = each.beat, f"{each.place} ended"
        return found

    def _renewed(self, group: StoredGroup, *, ended: Mapping[str, tuple[int, str]]) -> StoredGroup:
        now_us = self._clock.now_us()
        for member_id, (beat, reason) in ended.items():
            other = group.member(member_id)
            # A member that has renewed its lease meanwhile is alive.
            if other is not None and other.beat == beat:
                group = group.without_member(member_id, now_us, reason)
        self._check_kind(group, now_us)
        me = StoredMember(
            *(*self._me, self.lease_s, self._beat, now_us),
            is_manual=self.is_manual,
            is_shared=self._is_shared,
        )
        return group.with_member(me)

    def _check_kind(self, group: StoredGroup, now_us: int) -> None:
        for each in group.members:
            if each.is_shared != self._is_shared and each.is_live_at(now_us):
                raise UnavailableError(
                    _SHARED if each.is_shared else _NOT_SHARED,
                    consumer=self._name,
                    topic=self._topic.name,
                    pid=each.pid,
                    host=each.host,
                )

    def _planned(self, group: StoredGroup) -> Plan:
        mine = {each.partition: each for each in group.holds if each.member == self._me.id}
        lost = {}
        for number, generation in tuple(self.held.items()):
            known = mine.get(number)
            if known is None or known.generation != generation:
                last = group.hold(number)
                lost[number] = "the group was removed" if last is None else last.reason
                del self.held[number]
        # A held partition that is not known here was taken by a step that failed afterwards.
        self.held.update((n, each.generation) for n, each in mine.items() if n not in self.held)
        surplus = (
            [] if self.is_manual else sorted(self.held.keys() - self._aims(group, _holders(group)))
        )
        return Plan(lost, surplus, sorted(self._wanted(group)))

    def _aims(self, group: StoredGroup, holders: Mapping[int, StoredMember]) -> set[int]:
        """Return what this member should hold, regardless of the others' progress."""
        if self.is_manual:
            return set(self.chosen)
        members = [each.id for each in group.members if not each.is_manual]
        shared: dict[int, str | None] = {}
        for number in range(self._partitions()):
            holder = holders.get(number)
            if holder is None or not holder.is_manual:
                shared[number] = None if holder is None else holder.id
        return {n for n, each in targets(members, shared).items() if each == self._me.id}

    def _wanted(self, group: StoredGroup) -> set[int]:
        holders = _holders(group)
        return self._aims(group, holders) - holders.keys()

    def _taken(self, group: StoredGroup, wanted: Collection[int]) -> Mapping[int, int]:
        self._reasons = {each.partition: each.reason for each in group.holds}
        taken = {
            each.partition: each.generation
            for each in group.holds
            if each.member == self._me.id and each.partition in wanted
        }
        self.held.update(taken)
        return taken

    def reason_of(self, partition: int) -> str:
        """Return why the partition was last moved, as of the last look."""
        return self._reasons.get(partition, "")

    def doubt(self) -> None:
        """Have the next look check whether the lease still holds."""
        self._valid_until = self._renew_at = float("-inf")

    def become_manual(self) -> None:
        """Stop being assigned partitions, and keep only chosen ones."""
        if not self.is_manual:
            self.is_manual, self.chosen = True, frozenset(self.held)
            self._renew_at = float("-inf")


def _holders(group: StoredGroup) -> Mapping[int, StoredMember]:
    """Return the holder of each held partition."""
    members = {each.id: each for each in group.members}
    return {
        each.partition: members[each.member]
        for each in group.holds
        if each.member is not None and each.member in members
    }
