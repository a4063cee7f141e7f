"""A named reader that acks what it has handled, and gets the rest again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, overload

from strandline.clock import Clock
from strandline.groups import LEASE_S, AssignmentEvent
from strandline.log import Log, TopicName, check_blocking, count_partitions
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
"""How many records a fetch returns at most, unless it says itself."""


class Consumer(Stream[Delivery]):
    """Reads a topic from its cursor, which follows what is acked. At least once.

    Consumers of one name, in any threads, processes and hosts that the log reaches, are one
    **group**: each is a member, partitions are assigned to them by themselves, and those of
    one that ends to the others. A member holds a lease, which is renewed while it reads; one
    that is silent for `lease_s` loses its partitions. What it stores of them later is
    LeaseLostError, and moves no cursor. With `group=False`, or with `partitions`, a consumer
    reads exactly what it is given (`assign`): UnavailableError, with the `pid` and `host` of
    the one that does, if another of its name reads one of them. `on_assignment` is called
    with `Assigned` and `Revoked`, on another thread.

    A record is outstanding from its delivery until it is acked or dead-lettered. The
    cursor in the log is the first outstanding one, so a nacked record holds it back while
    later ones are acked; after a restart everything from the cursor on is delivered again.
    A partition without a cursor begins at `start`. Cursors are stored before an ack
    returns; with `commit_every` or `commit_every_s`, after so many acked records or seconds,
    and by `commit` and `close`: what was acked and not stored is delivered again after a
    crash.

    Deliveries are counted in the log, so that a record which kills its consumer each
    time becomes a dead letter, too. If several records are in flight (neither acked nor
    nacked) when a process ends, none of them is known to be the cause: a record that was
    delivered `deliveries_max` times is delivered once more, alone, and dead-lettered if
    the process ends again. With None the consumer dead-letters nothing and stores no
    delays: the caller does, by `attempts`, and calls `begin_alone` before it handles a
    suspect.

    `for`, `next` and `fetch` may be mixed, one thread at a time; a step that times out or
    fails loses no delivery. `ack`, `nack` and `lag` may be called from any thread. `async
    with` gives an `AsyncConsumer` over this one.

    A consumer exists from when this returns: it is listed, and holds retention back in
    each partition, at `start` until it acks. LATEST is the end at that moment.

    An event that was appended with `deliver_at` comes once it is due, after those that were
    appended later and are not. The cursor waits for it; what is acked beyond it is stored with
    the cursor, and does not come again. So it is with a record that was nacked with a delay.

    With `on_dead_letter="block-key"` the records of a key come one after the other, each once
    the one before is settled, and those behind a dead letter wait until it was redriven and
    acked, or discarded. `fetch` returns them singly.

    With `where`, a predicate as for `subscribe`, only what matches comes; the cursor moves
    past the rest within POLL_S. A record on which the predicate fails is dead-lettered.

    What was dead-lettered and then redriven (`redrive`) comes as its record again, with
    its own place and a count that begins at 1, unless `redriven=False`.
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
        """What `where` has left out since the consumer was opened."""
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

        A member of a group is given no others from then on. What was outstanding in a
        released one goes to the consumer that reads it next. UnavailableError if another
        consumer of this name reads one of them. What raises changes nothing.
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

        What is due again comes first. UnavailableError when OUTSTANDING_MAX records of
        a partition are outstanding or wait for an earlier one, and while others are in
        flight when one of them has to be alone: ack first. Otherwise as
        `Subscription.next`. A nack by another thread is noticed within POLL_S.
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
        """Return what can be had at once, in order; waits until there is at least one.

        An empty list if there is none within `timeout_s`. The first comes whatever its
        size, and no other that would exceed `max_bytes`. What was delivered before comes by
        itself. Raises as `next`.
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
        """The record is handled, or each of these; with `up_to`, everything before it, too.

        Returns the cursor, of several records that of each partition. It is stored then,
        unless the consumer commits later. Again is no error; InvalidError for a record that
        was not delivered here, LeaseLostError for one of a partition that this member has
        lost. What raises changes nothing: the record is still outstanding.
        """
        if isinstance(records, Record | Delivery) or not isinstance(records, Iterable):
            return self._settlement.ack(records, up_to=check_flag("up_to", up_to))
        return self._settlement.ack_many([*check_items("records", records)])

    def commit(self) -> Mapping[Partition, Offset]:
        """Store what was acked so far, durable then; return the cursors that have moved."""
        return self._acks.commit()

    def nack(self, record: Record | Delivery, *, delay_s: float = 0.0, reason: str = "") -> bool:
        """Have the record delivered again after `delay_s`, or dead-lettered after the last try.

        A delay is stored before this returns, and outlives this process. Returns whether it
        was dead-lettered; it is acked then. InvalidError if it is not outstanding,
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
            # A caller that has to keep an order retries first what the process before has failed.
            is_stored = allowed is not None
            self._waiting.delay(outstanding, found, delay_s, is_stored=is_stored)
            return False
        self._dead_letters.dead_letter(outstanding, found, count, reason)
        return True

    def dead_letter(self, record: Record | Delivery, *, reason: str = "") -> None:
        """Dead-letter the record, however often it was delivered; it is acked then.

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
        """Return how the deliveries of an outstanding record before this one have ended."""
        with self._lock:
            return self._settlement.of(record).attempts(record_of(record).offset)

    def holds(self, record: Record | Delivery) -> bool:
        """Whether the record is outstanding, and no other member can have its partition.

        Asks no log: call it before an effect that cannot be undone.
        """
        # In the child of a fork the lease is still the parent's.
        return os.getpid() == self._pid and self._settlement.holds(record)

    def begin_alone(self, record: Record | Delivery) -> None:
        """Count that the record is handled from now on, and no other. Written on return."""
        self._settlement.check_held(record)
        self._counting.begin_alone(record_of(record))

    def hand_back(self, handled: Iterable[Record | Delivery] = ()) -> None:
        """Uncount deliveries that were never handled, at an orderly end: all but these."""
        # A step that was cancelled may be counting still.
        self._steps.settle()
        self._counting.hand_back(handled)

    def seek(self, partition: int, offset: int) -> None:
        """Go to `offset`, forwards or back, and drop what is outstanding there.

        Deliveries are counted again. In a group only the member that holds the partition
        may: LeaseLostError for others.
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
        self._counting.restart(partition, offset, generation or 0)
        if generation is not None:
            self._deliveries.leave(partition)
            self._deliveries.enter(partition, offset, generation)

    def lag(self) -> Mapping[Partition, int]:
        """Return for each assigned partition how many records are not acked."""
        highs = {n: self._log.marks(self._topic, n).high for n in self._counting.floors()}
        return self._counting.unsettled(highs)

    def __repr__(self) -> str:
        held = Shown(", ".join(map(str, sorted(self._rebalancing.entered))) or "none")
        way = "partitions" if self._membership.is_manual else "group_partitions"
        return prompt_text(
            "Consumer", self._name, self._subscription, tenant=self._tenant, **{way: held}
        )

    def close(self) -> None:
        """End reading, also for a thread that waits. What is outstanding is delivered again.

        What was acked is stored, and the partitions are another member's to take at once.
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
