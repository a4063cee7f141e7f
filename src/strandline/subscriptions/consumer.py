"""A named reader that acks what it has handled, and gets the rest again."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from strandline.clock import Clock, SystemClock
from strandline.log import Log, TopicName, check_blocking
from strandline.log.off_loop import in_thread
from strandline.log.queue_depth import check_count
from strandline.subscriptions.added_partitions import PartitionCount
from strandline.subscriptions.assignment import checked_place
from strandline.subscriptions.async_subscription import AsyncSubscription
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.dead_letters import append_dead_letter, dead_letter_topic_name
from strandline.subscriptions.deadline import deadline_in, is_over
from strandline.subscriptions.delivery import NEVER_HANDLED, Delivery, record_of
from strandline.subscriptions.membership import Membership
from strandline.subscriptions.outstanding import DELIVERIES_MAX, Attempts, Outstanding
from strandline.subscriptions.pages import POLL_S, FailedRecord
from strandline.subscriptions.passed_over import PassedOver
from strandline.subscriptions.redeliveries import Due, Redeliveries
from strandline.subscriptions.redriven import Redriven
from strandline.subscriptions.stream import Stream
from strandline.subscriptions.subscribing import records_for_consumer
from strandline.subscriptions.subscription import Subscription
from strandline.values import (
    EARLIEST,
    InvalidError,
    Offset,
    Partition,
    Record,
    Start,
    StartName,
    check_consumer_name,
    parse_tenant,
)
from strandline.values.arguments import check_flag, check_items, check_seconds, check_whole
from strandline.values.names import check_text
from strandline.values.prompt import prompt_text
from strandline.writes.loops import check_on_asyncio

if TYPE_CHECKING:
    from strandline.subscriptions import AsyncConsumer


class Consumer(Stream[Delivery]):
    """Reads a topic from its cursor, which follows what is acked. At least once.

    A record is outstanding from its delivery until it is acked or dead-lettered. The
    cursor in the log is the first outstanding one, so a nacked record holds it back while
    later ones are acked; after a restart everything from the cursor on is delivered again.
    A partition without a cursor begins at `start`.

    Deliveries are counted in the log, so that a record which kills its consumer each
    time becomes a dead letter, too. If several records are in flight (neither acked nor
    nacked) when a process ends, none of them is known to be the cause: a record that was
    delivered `deliveries_max` times is delivered once more, alone, and dead-lettered if
    the process ends again. With None the consumer dead-letters nothing: the caller does,
    by `attempts`, and calls `begin_alone` before it handles a suspect.

    `for` and `next` may be mixed, one thread at a time; a step that times out or fails
    loses no delivery. `ack`, `nack` and `lag` may be called from any thread. `async with`
    gives an `AsyncConsumer` over this one. Two members of one name split its
    partitions by hand: `partitions` and `assign`; None stands for all.

    A consumer exists from when this returns: it is listed, and holds retention back in
    each of its partitions, at `start` until it acks. LATEST is the end at that moment.
    While it is open, no other of its name may read a partition of its own, in any
    process: UnavailableError, with the `pid` and `host` of the one that does.

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
    ) -> None:
        super().__init__()
        self._takes_redriven = check_flag("redriven", redriven)
        if deliveries_max is not None:
            check_count("deliveries_max", deliveries_max)
        check_blocking(log)
        self._log = log
        self._topic = log.topic(topic)
        self._name = check_consumer_name(name)
        self._tenant = tenant = parse_tenant(tenant)
        self._deliveries_max = deliveries_max
        self._clock = clock or SystemClock()
        #: Held by one ack at a time, while it is stored.
        self._acking = threading.Lock()
        self._membership = Membership(
            log, self._topic, name, tenant=tenant, start=start, clock=self._clock
        )
        self._nacked, self._preparing = Redeliveries(), threading.Lock()
        self._on_its_way: Record | FailedRecord | Delivery | None = None
        self._dead_letter_topic = dead_letter_topic_name(self._topic)
        self._counting = Counting(log, self._topic, self._name, tenant, deliveries_max)
        self._lock, self._outstanding = self._counting.lock, self._counting.outstanding
        self._subscription: Subscription[Record | FailedRecord] = records_for_consumer(
            log,
            self._topic,
            self._name,
            tenant=tenant,
            where=where,
            read_ahead=read_ahead,
            clock=self._clock,
        )
        self.passed_over = PassedOver(self._counting, self._acking, where)
        """What `where` has left out since the consumer was opened."""
        self._count = PartitionCount(log, self._topic, self._clock, follows=partitions is None)
        whose = log, self._topic, self._name, tenant
        self._redriven = Redriven(*whose, deliveries_max=deliveries_max, clock=self._clock)
        try:
            self.assign(range(self._count.now()) if partitions is None else partitions)
            if redriven:
                self._redriven.expect_if_any()
        except BaseException:
            self.close()
            raise

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic, of the same tenant, where records are dead-lettered."""
        return self._dead_letter_topic

    def assign(self, partitions: Iterable[int]) -> None:
        """Read exactly these partitions from now on, new ones from the cursor.

        What was outstanding in a released one goes to the consumer that reads it next.
        UnavailableError if another consumer of this name reads one of them. What
        raises changes nothing.
        """
        counts, each_of = {self._topic: self._count.now()}, check_items("partitions", partitions)
        wanted = {checked_place(counts, self._topic, each).partition for each in each_of}
        added = sorted(wanted - set(self._outstanding))
        cursors = self._membership.join(added)
        try:
            for partition, cursor in cursors.items():
                self._enter(partition, cursor)
            self._redriven.assign(wanted)
        except BaseException:
            for partition in added:
                self._leave(partition)
            raise
        for released in set(self._outstanding) - wanted:
            self._leave(released)

    def assigned(self) -> list[Partition]:
        """Return the partitions that this member reads, ascending."""
        return list(self._subscription.assignment.assigned())

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if there is none within `timeout_s`.

        What is due again comes first. UnavailableError when OUTSTANDING_MAX records of
        a partition are outstanding or wait for an earlier one, and while others are in
        flight when one of them has to be alone: ack first. Otherwise as
        `Subscription.next`. A nack by another thread is noticed within POLL_S.
        """
        deadline = deadline_in(self._clock, timeout_s)
        is_last = False
        self._subscription.check_open()
        while (delivery := self._hand_over()) is None:
            if self._is_upkeep_due():
                self._keep_up()
            elif self._find():
                self._prepare()
                is_last = False
            elif is_last:
                self._redriven.look()
                return self._hand_over()
            else:
                self._on_its_way = self._subscription.next(self._wait_s(deadline))
                self._note_passed()
                is_last = is_over(self._clock, deadline)
        return delivery

    async def _next_on_loop(self, timeout_s: float | None = None) -> Delivery | None:
        check_on_asyncio()
        deadline = deadline_in(self._clock, timeout_s)
        is_last = False
        records = AsyncSubscription(self._subscription)
        self._subscription.check_open()
        while (delivery := self._hand_over()) is None:
            if self._is_upkeep_due():
                await in_thread(self._keep_up)
            elif await self._find_on_loop():
                await in_thread(self._prepare)
                is_last = False
            elif is_last:
                if self._redriven.is_expected:
                    await in_thread(self._redriven.look)
                return self._hand_over()
            else:
                self._on_its_way = await records.next(self._wait_s(deadline))
                self._note_passed()
                is_last = is_over(self._clock, deadline)
        return delivery

    def ack(self, record: Record | Delivery) -> Offset:
        """The record is handled. Returns the cursor, which is stored then.

        Again is no error; InvalidError for a record that was not delivered here. What
        raises changes nothing: the record is still outstanding.
        """
        record = record_of(record)
        # Two at a time would each store a cursor that knows nothing of the other.
        with self._acking:
            if self._redriven.holds(record):
                return self._ack_redriven(record)
            return self._ack(record)

    def nack(self, record: Record | Delivery, *, delay_s: float = 0.0, reason: str = "") -> bool:
        """Have the record delivered again after `delay_s`, or dead-lettered after the last try.

        Returns whether it was dead-lettered; it is acked then. InvalidError if it is not
        outstanding.
        """
        record = record_of(record)
        delay_s, reason = check_seconds("delay_s", delay_s), check_text(reason, "reason")
        if self._redriven.holds(record):
            return self._redriven.nack(record, delay_s=delay_s, reason=reason)
        with self._lock:
            outstanding = self._of(record)
            count = outstanding.count(record.offset)
            charged = outstanding.attempts(record.offset).charged + 1
            is_delayed = outstanding.is_delayed(record.offset)
            if self._deliveries_max is None or is_delayed or charged < self._deliveries_max:
                if outstanding.delay(record.offset):
                    due_at = self._clock.monotonic() + delay_s
                    self._nacked.add(Due(due_at, record.partition, record.offset))
                return False
        self._dead_letter(outstanding, record, count, reason)
        return True

    def dead_letter(self, record: Record | Delivery, *, reason: str = "") -> None:
        """Dead-letter the record, however often it was delivered; it is acked then.

        InvalidError if it is not outstanding.
        """
        record, reason = record_of(record), check_text(reason, "reason")
        if self._redriven.holds(record):
            self._redriven.dead_letter(record, reason=reason)
            return
        with self._lock:
            outstanding = self._of(record)
            count = outstanding.count(record.offset)
        self._dead_letter(outstanding, record, count, reason)

    def attempts(self, record: Record | Delivery) -> Attempts:
        """Return how the deliveries of an outstanding record before this one have ended."""
        record = record_of(record)
        with self._lock:
            return self._of(record).attempts(record.offset)

    def begin_alone(self, record: Record | Delivery) -> None:
        """Count that the record is handled from now on, and no other. Written on return."""
        record = record_of(record)
        self._of(record)
        self._counting.begin_alone(record)

    def hand_back(self, handled: Iterable[Record | Delivery] = ()) -> None:
        """Uncount deliveries that were never handled, at an orderly end: all but these."""
        self._counting.hand_back(handled)

    def seek(self, partition: int, offset: int) -> None:
        """Go to `offset`, forwards or back, and drop what is outstanding there.

        Deliveries are counted again.
        """
        partition, offset = check_whole("partition", partition), check_whole("offset", offset)
        self._log.seek(self._topic, self._name, partition, offset, tenant=self._tenant)
        self._counting.restart(partition, offset)
        if partition in self._outstanding:
            self._stop_reading(partition)
            self._enter(partition, offset)

    def lag(self) -> Mapping[Partition, int]:
        """Return for each assigned partition how many records are not acked."""
        return {
            partition: self._log.marks(self._topic, partition).high - floor
            for partition, floor in self._counting.floors().items()
        }

    def __repr__(self) -> str:
        return prompt_text("Consumer", self._name, self._subscription, tenant=self._tenant)

    def close(self) -> None:
        """End reading, also for a thread that waits. What is outstanding is delivered again."""
        self._subscription.close()
        self._redriven.close()
        self.passed_over.try_store()
        self._counting.try_release()
        self._membership.close()

    async def __aenter__(self) -> AsyncConsumer:
        from strandline.subscriptions import AsyncConsumer  # noqa: PLC0415 - Made of this.

        return AsyncConsumer(self)

    def _ack(self, record: Record) -> Offset:
        with self._lock:
            outstanding = self._of(record)
            was_alone = outstanding.is_alone(record.offset)
            floor = outstanding.floor_after(record.offset)
        if floor > outstanding.stored:
            outstanding.stored = self._log.ack(
                self._topic, self._name, record.partition, floor, tenant=self._tenant
            )
        with self._lock:
            outstanding.settle(record.offset)
            floor = outstanding.floor
        if was_alone and record.offset >= floor:
            # It comes again after a crash, which must not be taken for its own.
            self._counting.note(record.partition)
        return floor

    def _ack_redriven(self, record: Record) -> Offset:
        with self._lock:
            outstanding = self._outstanding.get(record.partition)
            is_twice = outstanding is not None and outstanding.is_outstanding(record.offset)
        if is_twice:
            # It was gone back to as well, and need not come a second time.
            self._ack(record)
        self._redriven.ack(record)
        return Offset(record.offset + 1) if outstanding is None else outstanding.floor

    def _enter(self, partition: int, start: int) -> None:
        assignment = self._subscription.assignment
        assignment.add(partition, start)
        floor = assignment.position(partition)
        self._counting.enter(partition, floor)

    def _leave(self, partition: int) -> None:
        self._stop_reading(partition)
        self._membership.leave(partition)

    def _stop_reading(self, partition: int) -> None:
        with self._preparing:
            self._subscription.assignment.remove(partition)
            with self._lock:
                self._outstanding.pop(partition, None)
                self._nacked.remove_partition(partition)
            item = self._on_its_way
            record = item if item is None or isinstance(item, Record) else item.record
            if record is not None and record.partition == partition:
                self._on_its_way = None

    def _of(self, record: Record) -> Outstanding:
        if record.topic == self._topic.name and record.partition in self._outstanding:
            return self._outstanding[record.partition]
        raise InvalidError(
            "this consumer does not read the record's partition",
            topic=record.topic,
            partition=record.partition,
        )

    # What is on its way is a record that was found, then the delivery made of it. Whatever
    # breaks a step off leaves it there, for the next step to take up.

    def _find(self) -> bool:
        """Return whether a record is on its way, after a look at what is due again."""
        if self._on_its_way is None:
            self._find_due()
        if self._on_its_way is None:
            self._counting.check_room()
        return self._on_its_way is not None

    async def _find_on_loop(self) -> bool:
        # Invariant: what is due is removed only once it is on its way.
        if self._first_due() is None:
            return self._find()
        return await in_thread(self._find_in_turn)

    def _find_in_turn(self) -> bool:
        with self._preparing:
            return self._find()

    def _find_due(self) -> None:
        due = self._first_due()
        if due is None:
            return
        _, partition, offset = due
        (self._on_its_way,) = self._log.read(self._topic, partition, offset, records_max=1)
        with self._lock:
            self._nacked.remove(due)
            self._outstanding[partition].end_delay(offset)

    def _first_due(self) -> Due | None:
        with self._lock:
            return self._nacked.first(self._clock.monotonic(), self._outstanding)

    def _prepare(self) -> None:
        """Make a delivery of the record on its way, or dead-letter it. May have to wait."""
        with self._preparing:
            found = self._on_its_way
            if found is None or isinstance(found, Delivery):
                # A step that was cancelled has got so far after all.
                return
            record = found.record if isinstance(found, FailedRecord) else found
            outstanding = self._outstanding[record.partition]
            self.passed_over.note(record.partition, record.offset)
            with self._lock:
                attempts = outstanding.attempts(record.offset)
            allowed = self._deliveries_max
            reason = str(found.error) if isinstance(found, FailedRecord) else NEVER_HANDLED
            if allowed is not None and (
                isinstance(found, FailedRecord) or attempts.is_too_often(allowed)
            ):
                self._dead_letter(outstanding, record, attempts.count, reason)
                self._on_its_way = None
                return
            if allowed is not None:
                self._counting.check_alone(record, allowed)
            if allowed is not None or not attempts.is_suspect:
                self._counting.count(record)
            self._on_its_way = self._deliver(outstanding, record)

    def _deliver(self, outstanding: Outstanding, record: Record) -> Delivery | None:
        with self._lock:
            if outstanding.is_settled(record.offset):
                # Acked by another thread while it was on its way to come again.
                return None
            return Delivery(record, outstanding.deliver(record.offset))

    def _dead_letter(self, waiting: Outstanding, record: Record, count: int, reason: str) -> None:
        append_dead_letter(
            self._log,
            self._topic,
            record,
            self._name,
            tenant=self._tenant,
            deliveries=count,
            reason=reason,
        )
        with self._lock:
            waiting.take_on(record.offset)
        self.ack(record)
        # A later seek back to it delivers it again, with a new count.
        self._counting.note(record.partition)
        if self._takes_redriven:
            self._redriven.expect()

    # --- beside the topic itself ---

    def _is_upkeep_due(self) -> bool:
        now = self._clock.monotonic()
        beside = self._membership.is_heartbeat_due, self._redriven.is_due, self.passed_over.is_due
        return self._count.is_due(now) or any(is_due(now) for is_due in beside)

    def _keep_up(self) -> None:
        """Send a heartbeat, and look for what was redriven. May have to wait."""
        now = self._clock.monotonic()
        if self._membership.is_heartbeat_due(now):
            self._membership.send_heartbeat()
        self.passed_over.store_if_due(now)
        if self._count.has_grown():
            self._membership.begin_at_first()
            self.assign(range(self._count.now()))
        self._redriven.look()

    def _note_passed(self) -> None:
        if self._on_its_way is None:
            with self._preparing:
                self.passed_over.follow(self._subscription.assignment)

    def _hand_over(self) -> Delivery | None:
        if (redriven := self._redriven.take()) is not None:
            return redriven
        made = self._on_its_way
        if not isinstance(made, Delivery):
            return None
        self._on_its_way = None
        return made

    def _wait_s(self, deadline: float | None) -> float:
        now = self._clock.monotonic()
        with self._lock:
            due = self._nacked.next_at(now + POLL_S)
        ends = (due, now + POLL_S) if deadline is None else (due, now + POLL_S, deadline)
        return max(0.0, min(ends) - now)
