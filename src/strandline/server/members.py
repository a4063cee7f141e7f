"""Members of groups and work queues that the server holds on behalf of HTTP clients."""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.log.draft import size_of
from strandline.log.off_loop import in_thread
from strandline.server.problems import RequestError
from strandline.subscriptions import (
    AsyncConsumer,
    AsyncSharedConsumer,
    Consumer,
    Delivery,
    SharedConsumer,
    open_consumer,
)
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.orphaned_leases import OrphanedLeases, member_id
from strandline.values import (
    ConflictError,
    InvalidError,
    LeaseLostError,
    Record,
    StrandlineError,
    TrimmedError,
)

MEMBERS_MAX: Final = 1000
"""How many members the server has at most for its clients."""
HELD_MAX: Final = 10_000
"""The maximal number of unsettled deliveries of one member."""
_LOOK_S: Final = 1.0
_FIRST_RECORDS: Final = 4

LeaseStatus = Literal["ok", "dead_lettered", "lost"]


class MemberTerms(NamedTuple):
    """The identity and options of a member; clients with the same terms share one member."""

    whose: ConsumerName
    caller: str
    kind: Literal["queue", "group"]
    name: str
    lease_s: float
    options: tuple[tuple[str, Any], ...]


class LeaseResult(msgspec.Struct):
    """The outcome of one lease; `lost` if another member has the record, or had."""

    lease: str
    status: LeaseStatus
    detail: str = ""


class LeaseResults(msgspec.Struct):
    """The outcome of each lease, in order."""

    results: list[LeaseResult]


class _LeaseToken(msgspec.Struct, array_like=True):
    partition: int
    offset: int
    count: int
    member: str


class ClientMember:
    """One member: its deliveries, and the time of the client's last request."""

    def __init__(self, terms: MemberTerms, consumer: Consumer | SharedConsumer) -> None:
        self.terms = terms
        self.consumer = consumer
        #: One request at a time fetches.
        self.turn: Final = asyncio.Lock()
        self.is_fetching = False
        self.held: dict[str, Delivery] = {}
        self.acked: dict[str, None] = {}
        self._leases: dict[tuple[str, int, int], str] = {}
        self.used_at: float = 0.0

    @property
    def id(self) -> str:
        """The id of this member in its leases."""
        return member_id(self.consumer) if isinstance(self.consumer, SharedConsumer) else ""

    def hold(self, delivered: Iterable[Delivery]) -> list[tuple[str, Delivery]]:
        """Keep deliveries, each under its lease.

        An earlier lease of the same record, which another client may have, becomes invalid.
        """
        leased = [(_token(each, self.id), each) for each in delivered]
        for lease, each in leased:
            before = self._leases.pop(_place(each), None)
            if before is not None:
                self.held.pop(before, None)
            self.held[lease] = each
            self._leases[_place(each)] = lease
        while len(self.held) > HELD_MAX:
            # It has expired, or will be settled from the content of its lease.
            self.drop(next(iter(self.held)))
        return leased

    def knows(self, lease: str) -> bool:
        """Whether the lease is this member's latest one of its record."""
        return lease in self.held or lease in self.acked

    def drop(self, lease: str) -> None:
        """Remove a delivery."""
        delivery = self.held.pop(lease, None)
        if delivery is not None:
            self._leases.pop(_place(delivery), None)

    def note_acked(self, leases: Iterable[str]) -> None:
        """Remove these deliveries, and recognise repeated acks of them."""
        for each in leases:
            self.drop(each)
            self.acked[each] = None
        while len(self.acked) > HELD_MAX:
            del self.acked[next(iter(self.acked))]


class Members:
    """All members of the server's clients. For one event loop.

    A member without a request for the time of its lease is closed: a group then gives
    its partitions to other members. Leases of work queues expire by themselves, and survive the
    server: they are settled from their content, also after a restart.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clock: Clock = parts_of(log).clock
        self._open: dict[MemberTerms, ClientMember] = {}
        self._opening = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def member(self, terms: MemberTerms) -> ClientMember:
        """Return the member of these terms, opened if necessary."""
        async with self._opening:
            found = self._open.get(terms)
            if found is None:
                if len(self._open) >= MEMBERS_MAX:
                    raise RequestError(
                        503, "the server has too many members open", {"retry-after": "5"}
                    )
                found = ClientMember(terms, await in_thread(self._opened, terms))
                self._open[terms] = found
            found.used_at = self._clock.monotonic()
        self._look_later()
        return found

    async def fetch(
        self, member: ClientMember, limit: int, bytes_max: int, wait_s: float
    ) -> list[tuple[str, Delivery]]:
        """Return deliveries with their leases, as soon as there is one; none after `wait_s`."""
        async with member.turn:
            member.is_fetching = True
            try:
                found = await _fetched(member.consumer, limit, bytes_max, wait_s)
            finally:
                member.is_fetching = False
                member.used_at = self._clock.monotonic()
            return member.hold(found)

    async def settle(
        self, whose: ConsumerName, leases: list[str], act: "LeaseAction"
    ) -> list[LeaseResult]:
        """Settle or prolong each lease, and return its outcome."""
        known: dict[ClientMember, list[str]] = {}
        members = [each for terms, each in self._open.items() if terms.whose == whose]
        tokens = {each: _parsed(each) for each in leases}
        for each in leases:
            holder = next((member for member in members if member.knows(each)), None)
            if holder is not None:
                holder.used_at = self._clock.monotonic()
                known.setdefault(holder, []).append(each)
        results: dict[str, LeaseResult] = {}
        for holder, own in known.items():
            results |= await in_thread(_settle_held, holder, own, act)
        for each in leases:
            if each not in results:
                results[each] = await in_thread(
                    self._settle_orphaned, whose, each, tokens[each], act
                )
        return [results[each] for each in leases]

    def _opened(self, terms: MemberTerms) -> Consumer | SharedConsumer:
        is_queue = terms.kind == "queue"
        topic, name, tenant = terms.whose
        options = dict(terms.options) | {"tenant": tenant, "clock": self._clock}
        options["visibility_s" if is_queue else "lease_s"] = terms.lease_s
        return open_consumer(self._log, topic, name, shared=is_queue, options=options)

    def _settle_orphaned(
        self, whose: ConsumerName, lease: str, token: _LeaseToken, act: "LeaseAction"
    ) -> LeaseResult:
        """Settle an unknown lease: from before a restart, or from another server."""
        if not token.member:
            return LeaseResult(lease, "lost", "the member that had it has ended, fetch again")
        orphaned = OrphanedLeases(self._log, *whose, token.member)
        try:
            (record,) = self._log.read(whose[0], token.partition, token.offset, records_max=1)
            act.of_orphan(orphaned, record, token.count)
        except (ConflictError, InvalidError, TrimmedError, ValueError) as error:
            return LeaseResult(lease, "lost", str(error))
        return LeaseResult(lease, "ok")

    # --- silence ---

    def _look_later(self) -> None:
        if self._timer is None and self._open:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for terms, each in list(self._open.items()):
            if not each.is_fetching and now - each.used_at > terms.lease_s:
                del self._open[terms]
                task = asyncio.ensure_future(in_thread(_close, each))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        self._look_later()


class LeaseAction(NamedTuple):
    """An action on leases: for deliveries of an open member, and for those of an ended one."""

    of_one: Callable[[Consumer | SharedConsumer, Delivery], LeaseStatus]
    of_orphan: Callable[[OrphanedLeases, Record, int], object]
    of_all: Callable[[Consumer | SharedConsumer, list[Delivery]], object] | None = None
    """All of a member at once, at the cost of one; raises if one of them is lost. For acks."""
    ends: bool = True
    """Whether the lease is no longer valid then."""


def _settle_held(
    member: ClientMember, leases: list[str], act: LeaseAction
) -> dict[str, LeaseResult]:
    results = {}
    held = [each for each in leases if each in member.held]
    if act.of_all is not None:
        results = {each: LeaseResult(each, "ok") for each in leases if each in member.acked}
        # If one of them is lost, settle them one by one below.
        with contextlib.suppress(ConflictError, LeaseLostError, InvalidError):
            act.of_all(member.consumer, [member.held[each] for each in held])
            member.note_acked(held)
            return results | {each: LeaseResult(each, "ok") for each in held}
    for each in held:
        try:
            status = act.of_one(member.consumer, member.held[each])
        except (ConflictError, LeaseLostError, InvalidError) as error:
            results[each] = LeaseResult(each, "lost", str(error))
            member.drop(each)
        else:
            results[each] = LeaseResult(each, status)
            if act.of_all is not None:
                member.note_acked([each])
            elif act.ends:
                member.drop(each)
    settled = "it is settled already"
    return {each: LeaseResult(each, "lost", settled) for each in leases} | results


def acking() -> LeaseAction:
    """Return the action that acks."""

    def one(consumer: Any, delivery: Delivery) -> LeaseStatus:
        consumer.ack(delivery)
        return "ok"

    def all_(consumer: Any, deliveries: list[Delivery]) -> None:
        consumer.ack(deliveries)

    return LeaseAction(one, OrphanedLeases.ack, all_)


def nacking(delay_s: float, reason: str) -> LeaseAction:
    """Return the action that has records delivered again, or dead-lettered."""

    def one(consumer: Any, delivery: Delivery) -> LeaseStatus:
        is_dead = consumer.nack(delivery, delay_s=delay_s, reason=reason)
        return "dead_lettered" if is_dead else "ok"

    return LeaseAction(one, lambda orphaned, record, count: orphaned.nack(record, count, delay_s))


def extending(lease_s: float) -> LeaseAction:
    """Return the action that prolongs; a member of a group lives on by being asked."""

    def one(consumer: Consumer | SharedConsumer, delivery: Delivery) -> LeaseStatus:
        if isinstance(consumer, SharedConsumer):
            consumer.extend(delivery, lease_s)
            return "ok"
        return "ok" if consumer.holds(delivery) else "lost"

    return LeaseAction(
        one, lambda orphaned, record, count: orphaned.extend(record, count, lease_s), ends=False
    )


async def _fetched(
    consumer: Consumer | SharedConsumer, limit: int, bytes_max: int, wait_s: float
) -> list[Delivery]:
    if isinstance(consumer, Consumer):
        return await AsyncConsumer(consumer).fetch(limit, bytes_max, wait_s)
    face = AsyncSharedConsumer(consumer)
    found = await face.fetch(min(limit, _FIRST_RECORDS), wait_s)
    while found and len(found) < limit:
        # Fetch as many more as fit, if they are no larger than those found.
        sizes = [size_of(each.record) for each in found]
        fitting = (bytes_max - sum(sizes)) // max(1, *sizes)
        if fitting <= 0:
            break
        more = await face.fetch(min(limit - len(found), fitting), 0)
        if not more:
            break
        found += more
    return found


def _place(delivery: Delivery) -> tuple[str, int, int]:
    record = delivery.record
    return record.topic, int(record.partition), int(record.offset)


def _close(member: ClientMember) -> None:
    # Deliveries that cannot be given back are free once their leases expire.
    with contextlib.suppress(StrandlineError):
        member.consumer.close()


def _token(delivery: Delivery, member: str) -> str:
    record = delivery.record
    said = _LeaseToken(int(record.partition), int(record.offset), delivery.count, member)
    return base64.urlsafe_b64encode(msgspec.json.encode(said)).decode()


def _parsed(lease: str) -> _LeaseToken:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(lease), type=_LeaseToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidError("this is no lease that fetch has returned", lease=lease) from error
