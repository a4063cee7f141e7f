"""Members of groups and work queues that the server holds on behalf of HTTP clients."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.log.off_loop import in_thread
from strandline.server.client_member import ClientMember, LeaseToken, MemberTerms, parsed_lease
from strandline.server.fetch_line import FetchLine
from strandline.server.problems import RequestError
from strandline.subscriptions import Consumer, Delivery, SharedConsumer, open_consumer
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.orphaned_leases import OrphanedLeases
from strandline.values import ConflictError, InvalidError, LeaseLostError, Record, TrimmedError

MEMBERS_MAX: Final = 1000
"""The most members that the server holds for its clients."""
_LOOK_S: Final = 1.0

LeaseStatus = Literal["ok", "dead_lettered", "lost"]


class LeaseResult(msgspec.Struct):
    """The outcome of one lease; `lost` if another member has the record, or had."""

    lease: str
    status: LeaseStatus
    detail: str = ""


class LeaseResults(msgspec.Struct):
    """The outcome of each lease, in order."""

    results: list[LeaseResult]


class Members:
    """All members of the server's clients. For one event loop.

    A member without a request for the time of its lease is closed, once its leases have
    expired: a group then gives its partitions to other members. Leases of work queues expire by
    themselves, and survive the server: they are settled from their content, also after a restart.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clock: Clock = parts_of(log).clock
        self._open: dict[MemberTerms, FetchLine] = {}
        self._opening = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def line(self, terms: MemberTerms) -> FetchLine:
        """Return the waiting clients with these terms; opens their member if needed."""
        async with self._opening:
            found = self._open.get(terms)
            if found is None:
                if len(self._open) >= MEMBERS_MAX:
                    raise RequestError(
                        503, "the server has too many members open", {"retry-after": "5"}
                    )
                consumer = await in_thread(self._opened, terms)
                found = FetchLine(ClientMember(terms, consumer, self._clock), self._clock)
                self._open[terms] = found
            found.used_at = self._clock.monotonic()
        self._look_later()
        return found

    async def settle(
        self, whose: ConsumerName, leases: list[str], act: "LeaseAction"
    ) -> list[LeaseResult]:
        """Settle or prolong each lease, and return its outcome."""
        known: dict[ClientMember, list[str]] = {}
        lines = [line for terms, line in self._open.items() if terms.whose == whose]
        tokens = {each: parsed_lease(each) for each in leases}
        for each in leases:
            line = next((line for line in lines if line.member.knows(each)), None)
            if line is not None:
                line.used_at = self._clock.monotonic()
                known.setdefault(line.member, []).append(each)
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
        self, whose: ConsumerName, lease: str, token: LeaseToken, act: "LeaseAction"
    ) -> LeaseResult:
        """Settle an unknown lease: from before a restart, or from another server."""
        if not token.member:
            return LeaseResult(lease, "lost", "the lease or its member has ended, fetch again")
        orphaned = OrphanedLeases(self._log, *whose, token.member)
        try:
            found = self._log.read(whose[0], token.partition, token.offset, records_max=1)
            if (record := next(found, None)) is None:
                return LeaseResult(lease, "lost", "the topic has no record for it, fetch again")
            act.of_orphan(orphaned, record, token.count)
        except (ConflictError, InvalidError, TrimmedError) as error:
            return LeaseResult(lease, "lost", str(error))
        return LeaseResult(lease, "ok")

    # --- closing unused members ---

    def _look_later(self) -> None:
        if self._timer is None and self._open:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        for terms, each in list(self._open.items()):
            if each.is_unused:
                del self._open[terms]
                task = asyncio.ensure_future(in_thread(each.member.close))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        self._look_later()


class LeaseAction(NamedTuple):
    """An action on leases: for deliveries of an open member, and for those of an ended one."""

    of_one: Callable[[Consumer | SharedConsumer, Delivery], LeaseStatus]
    of_orphan: Callable[[OrphanedLeases, Record, int], object]
    of_all: Callable[[Consumer | SharedConsumer, list[Delivery]], object] | None = None
    """Settles all deliveries of a member at once, for acks; raises if one of them is lost."""
    prolonged_s: float | None = None
    """How long the lease lasts from then on; None if it ends."""


def _settle_held(
    member: ClientMember, leases: list[str], act: LeaseAction
) -> dict[str, LeaseResult]:
    results = {}
    # A lease may end meanwhile.
    held = {each: found for each in leases if (found := member.held.get(each)) is not None}
    if act.of_all is not None:
        results = {each: LeaseResult(each, "ok") for each in leases if each in member.acked}
        # If one of them is lost, settle them one by one below.
        with contextlib.suppress(ConflictError, LeaseLostError, InvalidError):
            act.of_all(member.consumer, [*held.values()])
            member.note_acked(held)
            return results | {each: LeaseResult(each, "ok") for each in held}
    for each, delivery in held.items():
        try:
            status = act.of_one(member.consumer, delivery)
        except (ConflictError, LeaseLostError, InvalidError) as error:
            results[each] = LeaseResult(each, "lost", str(error))
            member.drop(each)
        else:
            results[each] = LeaseResult(each, status)
            if act.of_all is not None:
                member.note_acked([each])
            elif act.prolonged_s is None:
                member.drop(each)
            else:
                member.prolong(each, act.prolonged_s)
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
    """Return the action that nacks: redelivers records, or dead-letters them."""

    def one(consumer: Any, delivery: Delivery) -> LeaseStatus:
        is_dead = consumer.nack(delivery, delay_s=delay_s, reason=reason)
        return "dead_lettered" if is_dead else "ok"

    return LeaseAction(one, lambda orphaned, record, count: orphaned.nack(record, count, delay_s))


def extending(lease_s: float) -> LeaseAction:
    """Return the action that prolongs leases."""

    def one(consumer: Consumer | SharedConsumer, delivery: Delivery) -> LeaseStatus:
        if isinstance(consumer, SharedConsumer):
            consumer.extend(delivery, lease_s)
            return "ok"
        return "ok" if consumer.holds(delivery) else "lost"

    return LeaseAction(
        one,
        lambda orphaned, record, count: orphaned.extend(record, count, lease_s),
        prolonged_s=lease_s,
    )
