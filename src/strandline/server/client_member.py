"""A member of a group or work queue on behalf of HTTP clients, and the leases it has given."""

import base64
import binascii
import contextlib
import math
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from strandline.clock import Clock
from strandline.log.off_loop import in_thread
from strandline.subscriptions import Consumer, Delivery, SharedConsumer
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.orphaned_leases import member_id
from strandline.values import (
    ConflictError,
    InvalidError,
    LeaseLostError,
    StrandlineError,
    UnavailableError,
)

HELD_MAX: Final = 10_000
"""The most unsettled deliveries of a member."""
LEASE_ENDED: Final = "its lease has ended, and it was not settled"

Leased = tuple[str, Delivery]
"""A delivery under its lease."""


class MemberTerms(NamedTuple):
    """Which member it is, and how it was opened: clients with the same terms share one."""

    whose: ConsumerName
    caller: str
    kind: Literal["queue", "group"]
    name: str
    lease_s: float
    options: tuple[tuple[str, Any], ...]


class LeaseToken(msgspec.Struct, array_like=True):
    """The content of a lease: its record, delivery and member."""

    partition: int
    offset: int
    count: int
    member: str


class ClientMember:
    """One member: its deliveries and their leases.

    The log stores the leases of a work queue. Those of a group are kept here: its members hold
    partitions, which the server renews as long as clients send requests. See design 0100.
    """

    def __init__(
        self, terms: MemberTerms, consumer: Consumer | SharedConsumer, clock: Clock
    ) -> None:
        self.terms = terms
        self.consumer = consumer
        self._clock = clock
        self.held: dict[str, Delivery] = {}
        self.acked: dict[str, None] = {}
        self._leases: dict[tuple[str, int, int], str] = {}
        #: For a group: when each lease ends, and a time before which none does.
        self._ends: dict[str, float] = {}
        self.none_ends_before: float = math.inf

    @property
    def is_group(self) -> bool:
        """Whether it is a member of a group."""
        return isinstance(self.consumer, Consumer)

    @property
    def id(self) -> str:
        """The id by which its leases name it."""
        return member_id(self.consumer) if isinstance(self.consumer, SharedConsumer) else ""

    def hold(self, delivered: Iterable[Delivery]) -> list[Leased]:
        """Keep deliveries, each under its lease.

        An earlier lease of the same record is invalid from now on.
        """
        leased = [(lease_of(each, self.id), each) for each in delivered]
        for lease, each in leased:
            before = self._leases.pop(_place(each), None)
            if before is not None:
                self.drop(before)
            self.held[lease] = each
            self._leases[_place(each)] = lease
            self.prolong(lease, self.terms.lease_s)
        while len(self.held) > HELD_MAX and not self.is_group:
            # The oldest has expired, or is settled by the content of its lease.
            self.drop(next(iter(self.held)))
        return leased

    def room_for(self, limit: int) -> int:
        """Return how many deliveries it may fetch, up to a limit; UnavailableError if none."""
        room = HELD_MAX - len(self.held) if self.is_group else limit
        if room <= 0:
            raise UnavailableError(
                "too many records are outstanding, ack the first of them", outstanding=HELD_MAX
            )
        return min(limit, room)

    def knows(self, lease: str) -> bool:
        """Whether the lease is one of this member, and no later one has replaced it."""
        return lease in self.held or lease in self.acked

    def drop(self, lease: str) -> None:
        """Forget a delivery and its lease."""
        self._ends.pop(lease, None)
        delivery = self.held.pop(lease, None)
        if delivery is not None:
            self._leases.pop(_place(delivery), None)

    def note_acked(self, leases: Iterable[str]) -> None:
        """Forget these deliveries, but recognise their leases if they are acked again."""
        for each in leases:
            self.drop(each)
            self.acked[each] = None
        while len(self.acked) > HELD_MAX:
            del self.acked[next(iter(self.acked))]

    def prolong(self, lease: str, lease_s: float) -> None:
        """Set the end of a lease to `lease_s` from now."""
        if self.is_group and lease in self.held:
            ends_at = self._clock.monotonic() + lease_s
            self._ends[lease] = ends_at
            self.none_ends_before = min(self.none_ends_before, ends_at)

    def is_unused(self, used_at: float) -> bool:
        """Whether it may be closed, if there was no request since then."""
        last = max((used_at + self.terms.lease_s, *tuple(self._ends.values())))
        return self._clock.monotonic() > last

    async def end_leases(self) -> None:
        """Deliver records whose leases have expired again, before any later ones."""
        now = self._clock.monotonic()
        if now < self.none_ends_before:
            return
        # An atomic copy: a thread that settles may remove some meanwhile.
        ends = tuple(self._ends.items())
        ended = [lease for lease, at in ends if at <= now]
        if ended:
            await in_thread(self._deliver_again, ended)
        self.none_ends_before = min(tuple(self._ends.values()), default=math.inf)

    def _deliver_again(self, ended: Iterable[str]) -> None:
        for lease in ended:
            if (delivery := self.held.get(lease)) is None:
                continue
            assert isinstance(self.consumer, Consumer)
            # It was settled meanwhile, or another member has its partition by now.
            with contextlib.suppress(ConflictError, LeaseLostError, InvalidError):
                self.consumer.nack(delivery, reason=LEASE_ENDED)
            self.drop(lease)

    def put_back(self, unsent: Iterable[Leased]) -> None:
        """Put back deliveries that no client has received, uncounted. Blocks."""
        kept = [(lease, each) for lease, each in unsent if self.held.get(lease) is each]
        # What cannot be put back is delivered again when its lease expires.
        with contextlib.suppress(StrandlineError):
            self.consumer._put_back([each for _, each in kept])  # noqa: SLF001 - For the server only.
            for lease, _ in kept:
                self.drop(lease)

    def close(self) -> None:
        """Leave the group or the queue. Blocks."""
        # What cannot be released now is free when its lease expires.
        with contextlib.suppress(StrandlineError):
            self.consumer.close()


def _place(delivery: Delivery) -> tuple[str, int, int]:
    record = delivery.record
    return record.topic, int(record.partition), int(record.offset)


def lease_of(delivery: Delivery, member: str) -> str:
    """Return the lease of a delivery of a member."""
    record = delivery.record
    token = LeaseToken(int(record.partition), int(record.offset), delivery.count, member)
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def parsed_lease(lease: str) -> LeaseToken:
    """Decode a lease; InvalidError for any other text."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(lease), type=LeaseToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidError("this is no lease that fetch has returned", lease=lease) from error
