"""A named reader that acks the records it has handled, and gets the others again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, overload

from strandline.clock import Clock
from strandline.groups import LEASE_S, AssignmentEvent
from strandline.log import Log, TopicName, check_blocking, count_partitions
from strandline.log.stored_cursors import stored_cursor
from strandline.subscriptions.assignment import checked_place
from strandline.subscriptions.blocked_keys import OnDeadLetter, is_blocking
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.consumer_parts import (
    ConsumerSettings,
    checked_lease,
    checked_start,
    checked_watcher,
    consumer_parts,
)
from strandline.subscriptions.dead_letters import dead_letter_topic_name
from strandline.subscriptions.deliveries import FetchLimits
from strandline.subscriptions.delivery import Delivery, record_of
from strandline.subscriptions.outstanding import DELIVERIES_MAX, Attempts
from strandline.subscriptions.stream import Stream
from strandline.values import (
    EARLIEST,
    Offset,
    Partition,
    Record,
    Start,
    StartName,
    check_consumer_name,
    parse_tenant,
)
from strandline.values.arguments import (
    check_flag,
    check_items,
    check_limit,
    check_seconds,
    check_timeout,
    check_whole,
)
from strandline.values.names import check_text
from strandline.values.prompt import Shown, prompt_text

if TYPE_CHECKING:
    from strandline.subscriptions import AsyncConsumer

FETCH_MAX = 500
"""How many records a fetch returns at most, by default."""


class Consumer(Stream[Delivery]):
    """Reads a topic from its cursor, which follows the acks. Delivers at least once.

    Consumers of one name, in any threads, processes and hosts that the log reaches, form a
    **group**: each is a member. Partitions are assigned to members automatically, and those of
    a member that ends go to the others. A member holds a lease and renews it while it reads; a
    member that is silent for `lease_s` loses its partitions. If it stores anything of them
    later, that raises LeaseLostError and moves no cursor. With `group=False`, or with
    `partitions`, a consumer reads exactly the partitions given (`assign`): UnavailableError,
    with the other reader's `pid` and `host`, if another consumer of its name reads one of them.
    `on_assignment` is called with `Assigned` and `Revoked`, on another thread.

    A record is outstanding from its delivery until it is acked or dead-lettered. The cursor in
    the log is the first outstanding record, so a nacked record stops it while later ones are
    acked; after a restart everything from the cursor on is delivered again. A partition without
    a cursor begins at `start`. The cursor is stored before an ack returns; with `commit_every`
    or `commit_every_s`, after that many acked records or seconds, and by `commit` and `close`:
    after a crash, records that were acked and not stored are delivered again.

    Deliveries are counted in the log, so that a record whose handling kills the process each
    time is dead-lettered, too. If several records are in flight (neither acked nor nacked) when
    a process ends, it is unknown which of them was the cause: a record that was delivered
    `deliveries_max` times is delivered once more, alone, and dead-lettered if the process ends
    again. With None the consumer dead-letters nothing and stores no delays: the caller does so,
    using `attempts`, and calls `begin_alone` before it handles a suspect.

    `for`, `next` and `fetch` may be mixed, one thread at a time; a step that times out or fails
    loses no delivery. Any thread may call `ack`, `nack` and `lag`. `async with` gives an
    `AsyncConsumer` over this one.

    A consumer exists from when this returns: it is listed, and holds back retention in each
    partition, at `start` until it acks. LATEST is the end at that moment.

    An event that was appended with `deliver_at` is delivered at that time, so after later events
    that are due earlier. The cursor waits for it; records acked beyond it are stored with the
    cursor, and are not delivered again. The same holds for a record nacked with a delay.

    With `on_dead_letter="block-key"` the records of a key are delivered one at a time, each after
    the previous one is settled; those behind a dead letter wait until it is redriven and acked,
    or discarded. `fetch` returns such records singly.

    With `where`, a predicate as for `subscribe`, only matching records are delivered; the cursor
    passes the others within POLL_S. A record on which the predicate fails is dead-lettered.

    A dead letter that is redriven (`redrive`) is delivered as its original record, with the
    original offset and a count that begins at 1, unless `redriven=False`.
    """

    def __init__(
        self,
        log: Log,
        topic: TopicName,
        name: str,
        *,
        tenant: str | None = None,
        partitions: Iterable[int] | None = None,
        start: Start | StartName | datetime = EARLIEST,
        where: str = "",
        deliveries_max: int | None = DELIVERIES_MAX,
        read_ahead: int | None = None,
        clock: Clock | None = None,
        redriven: bool = True,
        group: bool = True,
        lease_s: float = LEASE_S,
        on_assignment: Callable[[AssignmentEvent], object] | None = None,
        commit_every: int | None = None,
        commit_every_s: float | None = None,
        on_dead_letter: OnDeadLetter = "continue",
    ) -> None:
        super().__init__()
        check_blocking(log)
        self._log = log
        whose = ConsumerName(log.topic(topic), check_consumer_name(name), parse_tenant(tenant))
        self._topic, self._name, self._tenant = whose
        self._dead_letter_topic = dead_letter_topic_name(self._topic)
        settings = ConsumerSettings(
            start=checked_start(start),
            where=where,
            deliveries_max=check_limit("deliveries_max", deliveries_max, 1),
            read_ahead=read_ahead,
            clock=clock,
            takes_redriven=check_flag("redriven", redriven),
            is_manual=not check_flag("group", group) or partitions is not None,
            lease_s=checked_lease(lease_s),
            on_assignment=checked_watcher(on_assignment),
            commit_every=check_limit("commit_every", commit_every, 1),
            commit_every_s=check_timeout(commit_every_s, name="commit_every_s"),
            blocks_keys=is_blocking(on_dead_letter),
        )
        self._deliveries_max = deliveries_max
        parts = consumer_parts(log, whose, settings)
        self.passed_over: Final = parts.passed_over
        """How many records `where` has left out since the consumer was opened."""
        self._subscription = parts.subscription
        self._counting = parts.counting
        self._lock = parts.counting.lock
        self._redriven, self._membership = parts.redriven, parts.membership
        self._acks, self._dead_letters = parts.acks, parts.dead_letters
        self._deliveries = parts.deliveries
        self._waiting = parts.waiting
        self._rebalancing = parts.rebalancing
        self._steps = parts.steps
        self._settlement = parts.settlement
        try:
            self._begin(partitions, settings)
        except BaseException:
            self.close()
            raise

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic, of the same tenant, where records are dead-lettered."""
        return self._dead_letter_topic

    def assign(self, partitions: Iterable[int]) -> None:
        """Read exactly these partitions from now on, new ones from the cursor.

        A group member that calls this is assigned no others any more. Outstanding records of a
        released partition go to the consumer that reads it next. UnavailableError if another
        consumer of this name reads one of them. If it raises, nothing changes.
        """
        wanted = self._checked(partitions)
        self._subscription.check_open()
        self._rebalancing.assign(wanted)
        self._redriven.assign(wanted)

    def assigned(self) -> list[Partition]:
        """Return the partitions that this member reads, ascending."""
        return sorted({*self._subscription.assignment.assigned(), *self._waiting.reading_paused()})

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if there is none within `timeout_s`.

        Records due again come first. UnavailableError when OUTSTANDING_MAX records of a
        partition are outstanding or wait for an earlier one, and when a record must be
        delivered alone while others are in flight: ack first. Otherwise as
        `Subscription.next`. Acks and nacks of other threads are noticed at once.
        """
        found = self._steps.take(timeout_s, None)
        return found[0] if found else None

    async def _next_on_loop(self, timeout_s: float | None = None) -> Delivery | None:
        found = await self._steps.take_on_loop(timeout_s, None)
        return found[0] if found else None

    def fetch(
        self,
        max_records: int = FETCH_MAX,
        max_bytes: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Delivery]:
        """Return what is available at once, in order; waits until there is at least one.

        An empty list if there is none within `timeout_s`. The first is returned whatever its
        size, further ones only while they fit into `max_bytes`. A record that was delivered
        before is returned alone. Raises as `next`.
        """
        return self._steps.take(timeout_s, _limits(max_records, max_bytes))

    async def _fetch_on_loop(
        self, max_records: int, max_bytes: int | None, timeout_s: float | None
    ) -> list[Delivery]:
        return await self._steps.take_on_loop(timeout_s, _limits(max_records, max_bytes))

    @overload
    def ack(self, records: Record | Delivery, *, up_to: bool = False) -> Offset: ...
    @overload
    def ack(self, records: Iterable[Record | Delivery]) -> Mapping[Partition, Offset]: ...
    def ack(
        self, records: Record | Delivery | Iterable[Record | Delivery], *, up_to: bool = False
    ) -> Offset | Mapping[Partition, Offset]:
        """Mark the record, or each of these, as handled; with `up_to`, everything before it, too.

        Returns the cursor; for several records, the cursor of each partition. It is stored when
        this returns, unless the consumer commits later. A repeated ack is no error.
        InvalidError for a record that was not delivered here, LeaseLostError for one of a
        partition that this member has lost. If it raises, the records are still outstanding,
        except that redriven records are acked after all others: if that fails, a note of the
        error has a note that the others are acked. Pass the same records again in both cases.
        """
        if isinstance(records, Record | Delivery) or not isinstance(records, Iterable):
            return self._settlement.ack(records, up_to=check_flag("up_to", up_to))
        return self._settlement.ack_many([*check_items("records", records)])

    def commit(self) -> Mapping[Partition, Offset]:
        """Store what was acked so far, durably; return the cursors that have moved."""
        return self._acks.commit()

    def nack(self, record: Record | Delivery, *, delay_s: float = 0.0, reason: str = "") -> bool:
        """Have the record delivered again after `delay_s`, or dead-letter it after the last try.

        A delay is stored before this returns, and outlives this process. Returns whether the
        record was dead-lettered, and so acked. InvalidError if it is not outstanding,
        LeaseLostError as for `ack`.
        """
        found = record_of(record)
        delay_s, reason = check_seconds("delay_s", delay_s), check_text(reason, "reason")
        if self._redriven.holds(found):
            return self._redriven.nack(found, delay_s=delay_s, reason=reason)
        self._settlement.check_held(record)
        with self._lock:
            outstanding = self._settlement.of(record)
            count = outstanding.count(found.offset)
            charged = outstanding.attempts(found.offset).charged + 1
            allowed = self._deliveries_max
            is_delayed = outstanding.is_delayed(found.offset)
        if allowed is None or is_delayed or charged < allowed:
            # A caller that keeps an order first retries what the previous process has failed.
            is_stored = allowed is not None
            self._waiting.delay(outstanding, found, delay_s, is_stored=is_stored)
            return False
        self._dead_letters.dead_letter(outstanding, found, count, reason)
        return True

    def dead_letter(self, record: Record | Delivery, *, reason: str = "") -> None:
        """Dead-letter and ack the record, however often it was delivered.

        InvalidError if it is not outstanding, LeaseLostError as for `ack`.
        """
        found, reason = record_of(record), check_text(reason, "reason")
        if self._redriven.holds(found):
            self._redriven.dead_letter(found, reason=reason)
            return
        self._settlement.check_held(record)
        with self._lock:
            outstanding = self._settlement.of(record)
            count = outstanding.count(found.offset)
        self._dead_letters.dead_letter(outstanding, found, count, reason)

    def attempts(self, record: Record | Delivery) -> Attempts:
        """Return how the earlier deliveries of an outstanding record have ended."""
        with self._lock:
            return self._settlement.of(record).attempts(record_of(record).offset)

    def holds(self, record: Record | Delivery) -> bool:
        """Whether the record is outstanding, and no other member can have its partition.

        Does not read the log: call it before an effect that cannot be undone.
        """
        # In a forked child the lease still belongs to the parent.
        return os.getpid() == self._pid and self._settlement.holds(record)

    def begin_alone(self, record: Record | Delivery) -> None:
        """Record, before this returns, that this record and no other is handled from now on."""
        self._settlement.check_held(record)
        self._counting.begin_alone(record_of(record))

    def hand_back(self, handled: Iterable[Record | Delivery] = ()) -> None:
        """At an orderly end, uncount deliveries that were never handled: all except these.

        Acked records beyond the first outstanding one are stored, and not delivered again.
        """
        # A cancelled step may still be counting.
        self._steps.settle()
        self._counting.end()
        try:
            self._acks.commit()
        finally:
            self._counting.hand_back(handled)

    def _put_back(self, unseen: Iterable[Record | Delivery]) -> None:
        """Have records delivered again that no caller has seen, uncounted."""
        for each in unseen:
            record = record_of(each)
            if self._redriven.holds(record):
                self._redriven.put_back(record)
                continue
            with self._lock:
                outstanding = self._settlement.of(each)
            self._waiting.put_back(outstanding, record)
        self._counting.try_release()

    def seek(self, partition: int, offset: int) -> None:
        """Move to `offset`, forwards or back, and drop what is outstanding there.

        Delivery counts start over. In a group only the member that holds the partition may do
        this: LeaseLostError for others.
        """
        partition, offset = check_whole("partition", partition), check_whole("offset", offset)
        self._subscription.check_open()
        generation = self._rebalancing.entered.get(partition)
        if generation is None and partition in self._rebalancing.left:
            raise self._settlement.lost(partition)
        self._log.seek(
            *(self._topic, self._name, partition, offset),
            tenant=self._tenant,
            generation=generation,
        )
        stored = stored_cursor(self._log, self._topic, self._name, partition, self._tenant)
        seek_id = None if stored is None else stored.seek_id
        self._counting.restart(partition, offset, generation or 0, seek_id=seek_id)
        if generation is not None:
            self._deliveries.leave(partition)
            self._deliveries.look_at_letters()
            self._deliveries.enter(partition, offset, generation, stored)

    def lag(self) -> Mapping[Partition, int]:
        """Return the number of records that are not acked, for each assigned partition."""
        highs = {n: self._log.marks(self._topic, n).high for n in self._counting.floors()}
        return self._counting.unsettled(highs)

    def __repr__(self) -> str:
        held = Shown(", ".join(map(str, sorted(self._rebalancing.entered))) or "none")
        way = "partitions" if self._membership.is_manual else "group_partitions"
        return prompt_text(
            "Consumer", self._name, self._subscription, tenant=self._tenant, **{way: held}
        )

    def close(self) -> None:
        """Close the reader, also for a waiting thread. Outstanding records are delivered again.

        Acks are stored, and other members can take the partitions at once.
        """
        self._subscription.close()
        self._redriven.close()
        self._acks.close()
        self._counting.try_release()
        self._rebalancing.close()

    async def __aenter__(self) -> AsyncConsumer:
        from strandline.subscriptions import AsyncConsumer  # noqa: PLC0415 - Made of this.

        return AsyncConsumer(self)

    def _begin(self, partitions: Iterable[int] | None, settings: ConsumerSettings) -> None:
        count = count_partitions(self._log, self._topic)
        chosen = None
        if settings.is_manual:
            chosen = self._checked(range(count) if partitions is None else partitions)
        self._rebalancing.begin(chosen, count, is_every=partitions is None)
        if chosen is not None:
            self._redriven.assign(chosen)
        if settings.takes_redriven:
            self._redriven.expect_if_any()

    def _checked(self, partitions: Iterable[int]) -> set[int]:
        counts = {self._topic: count_partitions(self._log, self._topic)}
        each_of = check_items("partitions", partitions)
        return {int(checked_place(counts, self._topic, each).partition) for each in each_of}


def _limits(max_records: int, max_bytes: int | None) -> FetchLimits:
    records = check_whole("max_records", max_records, 1)
    return FetchLimits(records, check_limit("max_bytes", max_bytes, 1))
