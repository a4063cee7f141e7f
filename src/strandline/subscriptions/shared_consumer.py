"""A work queue: members of one name share the records of a topic. See design 0096."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from strandline.clock import Clock, SystemClock, deadline_in, has_passed
from strandline.log import Log, TopicName, check_blocking, parts_of
from strandline.log.off_loop import CallsInTurn
from strandline.subscriptions.blocked_keys import BlockedKeys, OnDeadLetter, is_blocking
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.dead_letters import append_dead_letter, dead_letter_topic_name
from strandline.subscriptions.delivery import NEVER_HANDLED, Delivery, record_of
from strandline.subscriptions.held_deliveries import HeldDeliveries
from strandline.subscriptions.outstanding import DELIVERIES_MAX
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.queue_leasing import QueueLeasing
from strandline.subscriptions.queue_partitions import QueuePartitions
from strandline.subscriptions.queue_records import QueueRecords
from strandline.subscriptions.queue_state import FREE, Lease, QueueState
from strandline.subscriptions.queue_store import QueueStore
from strandline.subscriptions.received import tracing_of
from strandline.subscriptions.redriven_queue import RedrivenQueue
from strandline.subscriptions.stream import Stream
from strandline.subscriptions.subscribing import screens_for
from strandline.subscriptions.waiting import due_in
from strandline.values import (
    EARLIEST,
    ClosedError,
    ConflictError,
    InvalidError,
    Partition,
    Record,
    Start,
    StartName,
    StrandlineError,
    Topic,
    TrimmedError,
    check_consumer_name,
    parse_tenant,
)
from strandline.values.arguments import (
    INT64_MAX,
    check_items,
    check_seconds,
    check_timeout,
    check_whole,
)
from strandline.values.names import check_text
from strandline.values.prompt import prompt_text
from strandline.writes.loops import check_on_asyncio

if TYPE_CHECKING:
    from strandline.subscriptions.async_shared_consumer import AsyncSharedConsumer

VISIBILITY_S: Final = 30.0
"""How long a delivered record is hidden from other members, unless extended."""

#: How soon to look again for records that other members may release at any moment.
_SOON_S: Final = 0.05
_US: Final = 1_000_000


class SharedConsumer(Stream[Delivery]):
    """A member of a work queue: each record goes to one member at a time. At least once.

    Any number of members of one name, in threads, processes and, if the log reaches further,
    hosts, share the records of all partitions. A delivery is leased for `visibility_s`, which
    `extend` prolongs; if it is neither acked nor nacked by then, or its member has died, the
    record goes to any member again. Acks may come in any order; records acked beyond the first
    unsettled one are stored in the log, and are not delivered again after a crash. The
    consumer's cursor never passes an unsettled record.

    A record that was delivered `deliveries_max` times is dead-lettered. `order="key"` delivers
    a record only after all earlier ones of its key are settled: a nacked or leased record
    delays only its own key. `start` is where a queue with a new name begins.

    `on_dead_letter="block-key"` implies the order by key; later records with a dead letter's
    key wait until it is redriven and acked, or discarded.

    An event that was appended with `deliver_at` is delivered at that time, and delays no other
    record until then. Of each partition, WINDOW records may be leased or waiting at a time.

    With `where`, a predicate as for `subscribe`, only matching records are delivered. The others
    are settled without a lease for all members as they are passed, and delay neither the cursor,
    nor their key, nor later records; open all members of a name with the same predicate. A
    record on which the predicate fails is dead-lettered. A redriven record is delivered whether
    it matches or not.

    Any thread may call `ack`, `nack`, `extend` and `dead_letter`; one at a time reads.
    """

    def __init__(
        self,
        log: Log,
        topic: TopicName,
        name: str,
        *,
        tenant: str | None = None,
        start: Start | StartName | datetime = EARLIEST,
        deliveries_max: int = DELIVERIES_MAX,
        visibility_s: float = VISIBILITY_S,
        order: str | None = None,
        clock: Clock | None = None,
        on_dead_letter: OnDeadLetter = "continue",
        where: str = "",
    ) -> None:
        super().__init__()
        check_blocking(log)
        self._log = log
        whose = ConsumerName(log.topic(topic), check_consumer_name(name), parse_tenant(tenant))
        self._whose, self._topic = whose, whose.topic
        self._deliveries_max = check_whole("deliveries_max", deliveries_max, 1)
        self._visibility_s = check_seconds("visibility_s", visibility_s, allows_zero=False)
        if order is not None and check_text(order, "order") != "key":
            raise InvalidError('order is "key", or None for none', order=order)
        self._clock = clock or SystemClock()
        self._member = str(self._clock.new_id())
        self._queue = QueueStore(log, whose)
        blocks = is_blocking(on_dead_letter)
        self._is_by_key = order == "key" or blocks
        screens = screens_for(log, [self._topic], where) or {}
        self._records = QueueRecords(log, self._topic, screens.get(self._topic))
        self._leasing = self._new_leasing(blocks_keys=blocks)
        self._dead_letter_topic = dead_letter_topic_name(self._topic)
        self._held = HeldDeliveries(self._queue, self._topic, self._member)
        self._turn_to_settle = threading.RLock()
        self._ready, self._calls = deque[Delivery](), CallsInTurn()
        self._is_closed = False
        self._turn = self._clock.random_bytes(1)[0]
        self._watch = log.watch()
        self._on_found = tracing_of(log, whose)
        self._redriven = RedrivenQueue(
            *(log, whose),
            deliveries_max=self._deliveries_max,
            new_reader=self._new_redriven_reader,
        )
        self._partitions = QueuePartitions(
            *(log, whose),
            start=start,
            queue=self._queue,
            watch=self._watch,
            clock=self._clock,
            lease_clock=clock or parts_of(log).clock,
            visibility_s=self._visibility_s,
        )
        try:
            self._partitions.join()
        except BaseException:
            self.close()
            raise

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic, of the same tenant, where records are dead-lettered."""
        return self._dead_letter_topic

    # --- reading ---

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if there is none within `timeout_s`."""
        found = self._fetch(1, timeout_s)
        return found[0] if found else None

    def fetch(self, max_records: int = 100, timeout_s: float | None = None) -> list[Delivery]:
        """Return up to `max_records` deliveries, once there is one; none if the time is up.

        They are leased in one write, each for `visibility_s` from now on.
        """
        return self._fetch(check_whole("max_records", max_records, 1), timeout_s)

    def _fetch(self, most: int, timeout_s: float | None) -> list[Delivery]:
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        self._check_open()
        self._calls.settle_here()
        while True:
            self._look(most)
            if found := self._take(most):
                return found
            if has_passed(self._clock, deadline):
                return []
            self._watch.wait(self._wait_s(deadline))

    async def _fetch_on_loop(self, most: int, timeout_s: float | None) -> list[Delivery]:
        check_on_asyncio()
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        self._check_open()
        await self._calls.settle()
        while True:
            await self._calls.make(self._look, most)
            if found := self._take(most):
                return found
            if has_passed(self._clock, deadline):
                return []
            wait_s = await self._calls.make(self._wait_s, deadline)
            await self._watch.wait_on_loop(wait_s)

    def _look(self, most: int) -> None:
        """Prepare deliveries, if there are any. May block; prepared ones are kept."""
        self._check_open()
        if self._ready:
            return
        self._partitions.keep_up()
        if (redriven := self._redriven.look()) is not None:
            self._ready.append(redriven)
            return
        count = self._partitions.count
        states: list[QueueState] | None = None
        for partition in (number % count for number in range(self._turn, self._turn + count)):
            if states is not None and self._leasing.is_settled(partition, states[partition]):
                continue
            if self._lease(partition, most):
                self._turn = partition + 1
                return
            if states is None:
                states = list(self._queue.look_at_each(count))

    def _take(self, most: int) -> list[Delivery]:
        """Return prepared deliveries. Does not block."""
        found: list[Delivery] = []
        while self._ready and len(found) < most:
            found.append(self._ready.popleft())
        if self._on_found is not None:
            self._on_found(found)
        return found

    async def _prepared_on_loop(self) -> list[Delivery]:
        """Return what cancelled steps have prepared."""
        await self._calls.settle()
        return self._take(len(self._ready))

    def _wait_s(self, deadline: float | None) -> float:
        """Return how long to wait for a hint before the next look."""
        now = self._clock.monotonic()
        due = now + (_SOON_S if self._is_due_soon() else POLL_S)
        return max(0.0, (due if deadline is None else min(due, deadline)) - now)

    def _is_due_soon(self) -> bool:
        """Whether another member may release a record, or one becomes due, before the next poll."""
        soon_us = self._clock.now_us() + round(POLL_S * _US)
        if self._leasing.is_one_due(soon_us):
            return True
        for state in self._queue.look_at_each(self._partitions.count):
            is_held = self._is_by_key and any(each.holder for each in state.leases)
            if is_held or any(each.until_us <= soon_us for each in state.leases):
                return True
        return False

    # --- settling ---

    def ack(self, delivered: Record | Delivery | Sequence[Record | Delivery]) -> None:
        """Mark the record, or each of several, as handled. Durable when this returns.

        May be repeated. ConflictError if a lease has expired and another member has, or had, the
        record since, or if a seek has moved the queue; the others of the call are acked then.
        InvalidError for a record that was not delivered here, ClosedError after `close`: none is
        acked then. After any other error some may be acked: pass the same records again.
        """
        if isinstance(delivered, Record | Delivery) or not isinstance(delivered, Iterable):
            records = [record_of(delivered)]
        else:
            records = [record_of(each) for each in check_items("delivered", delivered)]
        with self._settling():
            self._ack(records)

    def nack(self, record: Record | Delivery, *, delay_s: float = 0.0, reason: str = "") -> bool:
        """Have the record delivered again after `delay_s`, or dead-letter it after the last try.

        The delay is stored in the log, and outlives this process. Returns whether the record was
        dead-lettered, and so acked. Raises as `ack`, and InvalidError if it is settled.
        """
        record = record_of(record)
        delay_s, reason = check_seconds("delay_s", delay_s), check_text(reason, "reason")
        with self._settling():
            if self._redriven.holds(record):
                return self._redriven.nack(record, delay_s=delay_s, reason=reason)
            if self._deliveries_of(record) >= self._deliveries_max:
                self.dead_letter(record, reason=reason)
                return True
            due_us = due_in(self._clock, delay_s)
            self._held.replace(record, lambda lease: Lease(lease.offset, lease.count, due_us, FREE))
            self._held.drop(record.partition, [record.offset])
            return False

    def _put_back(self, unseen: Iterable[Record | Delivery]) -> None:
        """Release deliveries that no caller has seen, uncounted; ignore those that were lost."""
        offsets: dict[int, set[int]] = {}
        with self._settling():
            for record in map(record_of, unseen):
                if self._redriven.holds(record):
                    self._redriven.put_back(record)
                else:
                    offsets.setdefault(record.partition, set()).add(record.offset)
            for partition, each in offsets.items():
                self._held.put_back(partition, each)

    def extend(self, record: Record | Delivery, visibility_s: float | None = None) -> None:
        """Hide the record from other members for `visibility_s` from now on. Raises as `nack`."""
        record = record_of(record)
        given = self._visibility_s if visibility_s is None else visibility_s
        wanted_s = check_seconds("visibility_s", given, allows_zero=False)
        with self._settling():
            if self._redriven.holds(record):
                self._redriven.extend(record, wanted_s)
                return
            self._deliveries_of(record)
            self._partitions.stay()
            until_us = due_in(self._clock, wanted_s)
            self._held.replace(
                record, lambda lease: Lease(lease.offset, lease.count, until_us, self._member)
            )

    def dead_letter(self, record: Record | Delivery, *, reason: str = "") -> None:
        """Dead-letter and ack the record, however often it was delivered."""
        record, reason = record_of(record), check_text(reason, "reason")
        with self._settling():
            if self._redriven.holds(record):
                self._redriven.dead_letter(record, reason=reason)
                return
            count = self._deliveries_of(record)
            # A member that has lost the record must not dead-letter it.
            self._held.replace(record, lambda lease: lease)
            append_dead_letter(self._log, self._whose, record, deliveries=count, reason=reason)
            self._ack([record])

    # --- the rest ---

    def seek(self, partition: int, offset: int) -> None:
        """Start again at `offset` in a partition, forwards or back, for all members.

        Its current deliveries can no longer be acked. Delivery counts start over.
        """
        partition, offset = check_whole("partition", partition), check_whole("offset", offset)
        self._check_open()
        self._queue.restart(partition, offset)
        self._held.drop_partition(partition)
        kept = [each for each in self._ready if each.record.partition != partition]
        self._ready = deque(kept)

    def lag(self) -> Mapping[Partition, int]:
        """Return for each partition how many records are neither acked nor left out yet."""
        found = {}
        for number, state in enumerate(self._queue.look_at_each(self._partitions.count)):
            high = self._log.marks(self._topic, number).high
            found[Partition(number)] = max(0, high - state.floor - state.settled_count)
        return found

    def __repr__(self) -> str:
        return prompt_text(
            "SharedConsumer", self._whose.name, self._topic.name, held=len(self._held)
        )

    def close(self) -> None:
        """Close the reader, and release at once what it holds. May be repeated."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watch.close()
        # What cannot be released becomes free when its lease expires.
        with contextlib.suppress(StrandlineError):
            self._held.give_back()
            self._redriven.close()
            self._leasing.store_passed()
        self._partitions.leave()

    async def __aenter__(self) -> AsyncSharedConsumer:
        from strandline.subscriptions.async_shared_consumer import (  # noqa: PLC0415 - Made of this.
            AsyncSharedConsumer,
        )

        return AsyncSharedConsumer(self)

    # --- inside ---

    def _new_redriven_reader(self, topic: Topic) -> SharedConsumer:
        # This object, not the reader, dead-letters records for the original topic.
        return SharedConsumer(
            self._log,
            topic,
            self._whose.name,
            tenant=self._whose.tenant,
            deliveries_max=INT64_MAX,
            visibility_s=self._visibility_s,
            clock=self._clock,
        )

    def _new_leasing(self, *, blocks_keys: bool) -> QueueLeasing:
        return QueueLeasing(
            *(self._log, self._topic, self._queue, self._records),
            member=self._member,
            visibility_s=self._visibility_s,
            is_by_key=self._is_by_key,
            blocked=BlockedKeys(self._log, *self._whose) if blocks_keys else None,
            clock=self._clock,
        )

    def _lease(self, partition: int, most: int) -> bool:
        """Lease records of a partition to this member; False if there is none."""
        while True:
            leased = self._leasing.lease(partition, most)
            for each in leased.leases:
                self._hand_over(partition, each)
            if self._ready:
                return True
            if not (leased.leases or leased.is_more):
                return False
            # All of it was left out or dead-lettered, and there is more.
            self._check_open()

    def _hand_over(self, partition: int, lease: Lease) -> None:
        try:
            (record,) = self._log.read(self._topic, partition, lease.offset, records_max=1)
        except TrimmedError:
            # Just removed by a forced trim: no member gets it.
            return
        sifted = self._records.sifted(record)
        if isinstance(sifted, Record) and lease.count <= self._deliveries_max:
            self._redriven.forget(sifted)
            self._held.add(sifted, lease.count)
            self._ready.append(Delivery(sifted, lease.count))
            return
        if sifted is not None:
            # Each member that had it died, or let its lease expire; or the predicate fails.
            reason = NEVER_HANDLED if isinstance(sifted, Record) else str(sifted)
            count = lease.count - 1
            append_dead_letter(self._log, self._whose, record, deliveries=count, reason=reason)
        # If this took so long that another member has it, that member does the same.
        self._held.settle_unseen(record, lease.count)

    @contextlib.contextmanager
    def _settling(self) -> Iterator[None]:
        """Let one call at a time settle, so that each sees the completed work of earlier ones."""
        with self._turn_to_settle:
            self._check_open()
            try:
                yield
            except ConflictError:
                # `close` has released it meanwhile; no other member has taken it away.
                self._check_open()
                raise

    def _ack(self, records: Sequence[Record]) -> None:
        own = [each for each in records if not self._redriven.holds(each)]
        self._held.check_known(own, self._partitions.count)
        conflict = None
        for record in records:
            if self._redriven.holds(record):
                try:
                    self._redriven.ack(record)
                except ConflictError as error:
                    conflict = error
        by_partition: dict[int, list[int]] = {}
        for record in own:
            by_partition.setdefault(record.partition, []).append(record.offset)
        lost = [
            (partition, offset)
            for partition, offsets in by_partition.items()
            for offset in self._held.settle(partition, offsets)
        ]
        if lost:
            raise self._held.lost(*lost[0])
        if conflict is not None:
            raise conflict

    def _deliveries_of(self, record: Record) -> int:
        return self._held.deliveries_of(record, self._partitions.count)

    def _check_open(self) -> None:
        self._check_process()
        if self._is_closed:
            raise ClosedError("this consumer was closed, open it again")
        if self._watch.is_closed:
            raise ClosedError("the log is closed, open it again")
