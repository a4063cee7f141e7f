"""A named reader that says what it has dealt with, and gets the rest again."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from strandline.clock import Clock, SystemClock
from strandline.log import Log, TopicName
from strandline.subscriptions.delivery_counts import DeliveryCounts
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.parking import park, parking_name
from strandline.subscriptions.subscribing import check_count, open_subscription
from strandline.subscriptions.subscription import Subscription
from strandline.values import (
    EARLIEST,
    ClosedError,
    InvalidError,
    Offset,
    Partition,
    Record,
    Start,
    UnavailableError,
    check_consumer_name,
    parse_tenant,
)
from strandline.values.arguments import check_items, check_seconds, check_timeout, check_whole
from strandline.values.names import check_text

DELIVERIES_MAX: Final = 5
"""After how many deliveries a record that is nacked again is parked."""

OUTSTANDING_MAX: Final = 1024
"""How many records a consumer is given beyond the first that it has not dealt with."""

_NEVER_DEALT_WITH: Final = "delivered as often as allowed, and never dealt with"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record handed to a consumer."""

    record: Record
    count: int
    """How often the consumer was given it, this time and earlier lives included."""


class Consumer:
    """Reads a topic from its cursor, which follows what is acked. At least once.

    A record is outstanding from its delivery until it is acked or parked. The cursor in
    the log is the first outstanding one, so a record that is nacked holds it back while
    later ones are dealt with; after a restart everything from the cursor on comes again.
    A partition without a cursor begins at `start`.

    Deliveries are counted in the log, so that a record which kills its consumer each
    time is parked, too, once it was delivered `deliveries_max` times. What was delivered
    behind a record that is outstanding is counted from its second time on.

    `for`, `async for`, `next` and `arrived` may be mixed, one thread or task at a time;
    a step that times out, is cancelled or fails loses no delivery. `ack`, `nack` and
    `lag` may be called from any thread; on an event loop, make every call but `arrived`,
    `lag` and `close` with `asyncio.to_thread`. Two members of one name split its
    partitions by hand: `partitions` and `assign`; None stands for all.
    """

    def __init__(
        self,
        log: Log,
        topic: TopicName,
        name: str,
        *,
        tenant: str | None = None,
        partitions: Iterable[int] | None = None,
        start: Start | datetime = EARLIEST,
        deliveries_max: int = DELIVERIES_MAX,
        read_ahead: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_count("deliveries_max", deliveries_max)
        self._log = log
        self._topic = log.topic(topic)
        self._name = check_consumer_name(name)
        self._tenant = tenant = parse_tenant(tenant)
        self._start = start
        self._deliveries_max = deliveries_max
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._outstanding: dict[int, Outstanding] = {}
        self._resting: list[tuple[float, int, int]] = []
        self._preparing = threading.Lock()
        self._on_its_way: Record | Delivery | None = None
        self._parking = parking_name(self._topic)
        self._counts = DeliveryCounts(log, self._topic, self._name, tenant)
        self._subscription: Subscription[Record] = open_subscription(
            log,
            self._topic,
            partitions=(),
            consumer=self._name,
            tenant=tenant,
            read_ahead=read_ahead,
            clock=self._clock,
        )
        count = log.describe_topic(self._topic).settings.partitions
        try:
            self.assign(range(count) if partitions is None else partitions)
        except BaseException:
            self.close()
            raise

    @property
    def parking(self) -> str:
        """The name of the topic, of the same tenant, where records are parked."""
        return self._parking

    def assign(self, partitions: Iterable[int]) -> None:
        """Read exactly these partitions from now on, new ones from the cursor.

        What was outstanding in one that is given up goes to whoever reads it next.
        """
        wanted = {check_whole("partition", each) for each in check_items("partitions", partitions)}
        for given_up in set(self._outstanding) - wanted:
            self._leave(given_up)
        for partition in sorted(wanted):
            if partition not in self._outstanding:
                cursor = self._log.cursor(self._topic, self._name, partition, tenant=self._tenant)
                self._enter(partition, self._start if cursor is None else cursor)

    def assigned(self) -> list[Partition]:
        """Return the partitions that this member reads, ascending."""
        return list(self._subscription.assignment.assigned())

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery, or None if there is none within `timeout_s`.

        What is due again comes first. UnavailableError when OUTSTANDING_MAX records of
        a partition are outstanding or wait for an earlier one: ack first. Otherwise as
        `Subscription.next`. A nack by another thread is noticed within POLL_S.
        """
        deadline = self._deadline(timeout_s)
        is_over = False
        while (delivery := self._hand_over()) is None:
            if self._find():
                self._prepare()
                is_over = False
            elif is_over:
                return None
            else:
                self._on_its_way = self._subscription.next(self._rest_s(deadline))
                is_over = self._is_over(deadline)
        return delivery

    async def arrived(self, timeout_s: float | None = None) -> Delivery | None:
        """Do what `next` does, asleep on the running event loop."""
        deadline = self._deadline(timeout_s)
        is_over = False
        while (delivery := self._hand_over()) is None:
            if self._find():
                await asyncio.to_thread(self._prepare)
                is_over = False
            elif is_over:
                return None
            else:
                self._on_its_way = await self._subscription.arrived(self._rest_s(deadline))
                is_over = self._is_over(deadline)
        return delivery

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        try:
            delivery = self.next()
        except ClosedError:
            raise StopIteration from None
        assert delivery is not None
        return delivery

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        try:
            delivery = await self.arrived()
        except ClosedError:
            raise StopAsyncIteration from None
        assert delivery is not None
        return delivery

    def ack(self, record: Record) -> Offset:
        """The record is dealt with. Returns the cursor, which is stored then.

        Again is no error; InvalidError for a record that was not delivered here. If
        storing fails, a repeat or any later ack stores it.
        """
        with self._lock:
            outstanding = self._of(record)
            outstanding.settle(record.offset)
            floor = outstanding.floor
        if floor > outstanding.stored:
            outstanding.stored = self._log.ack(
                self._topic, self._name, record.partition, floor, tenant=self._tenant
            )
        return floor

    def nack(self, record: Record, *, delay_s: float = 0.0, reason: str = "") -> bool:
        """Have the record delivered again after `delay_s`, or parked if that was often enough.

        Returns whether it was parked; it is dealt with then. InvalidError if it is not
        outstanding.
        """
        delay_s = check_seconds("delay_s", delay_s)
        reason = check_text(reason, "reason")
        with self._lock:
            outstanding = self._of(record)
            count = outstanding.count(record.offset)
            if count < self._deliveries_max:
                if outstanding.rest(record.offset):
                    due = self._clock.monotonic() + delay_s
                    heapq.heappush(self._resting, (due, record.partition, record.offset))
                return False
        self._park(outstanding, record, count, reason)
        return True

    def park(self, record: Record, *, reason: str = "") -> None:
        """Park the record, however often it was delivered; it is dealt with then.

        InvalidError if it is not outstanding.
        """
        reason = check_text(reason, "reason")
        with self._lock:
            outstanding = self._of(record)
            count = outstanding.count(record.offset)
        self._park(outstanding, record, count, reason)

    def seek(self, partition: int, offset: int) -> None:
        """Go to `offset`, forwards or back, and forget what is outstanding there.

        Deliveries are counted anew.
        """
        partition, offset = check_whole("partition", partition), check_whole("offset", offset)
        self._log.seek(self._topic, self._name, partition, offset, tenant=self._tenant)
        self._counts.store(partition, offset, {})
        if partition in self._outstanding:
            self._leave(partition)
            self._enter(partition, offset)

    def lag(self) -> Mapping[Partition, int]:
        """Return for each assigned partition how many records are not dealt with."""
        with self._lock:
            floors = {Partition(n): each.floor for n, each in self._outstanding.items()}
        return {
            partition: self._log.marks(self._topic, partition).high - floor
            for partition, floor in floors.items()
        }

    def close(self) -> None:
        """End reading, also for whoever waits. What is outstanding comes again."""
        self._subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _enter(self, partition: int, start: Start | datetime | int) -> None:
        assignment = self._subscription.assignment
        assignment.add(partition, start)
        floor = assignment.position(partition)
        outstanding = Outstanding(floor, self._counts.load(partition, floor))
        with self._lock:
            self._outstanding[partition] = outstanding

    def _leave(self, partition: int) -> None:
        with self._preparing:
            self._subscription.assignment.remove(partition)
            with self._lock:
                self._outstanding.pop(partition, None)
                self._resting = [due for due in self._resting if due[1] != partition]
                heapq.heapify(self._resting)
            item = self._on_its_way
            record = item.record if isinstance(item, Delivery) else item
            if record is not None and record.partition == partition:
                self._on_its_way = None

    def _of(self, record: Record) -> Outstanding:
        if not isinstance(record, Record):
            raise InvalidError("record is one that was delivered", type=type(record).__name__)
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
            self._check_room()
        return self._on_its_way is not None

    def _find_due(self) -> None:
        due = self._first_due()
        if due is None:
            return
        _, partition, offset = due
        (self._on_its_way,) = self._log.read(self._topic, partition, offset, records_max=1)
        with self._lock:
            # Not simply the first of them: others may have been nacked meanwhile.
            self._resting.remove(due)
            heapq.heapify(self._resting)
            self._outstanding[partition].rouse(offset)

    def _first_due(self) -> tuple[float, int, int] | None:
        with self._lock:
            while self._resting and self._resting[0][0] <= self._clock.monotonic():
                due = self._resting[0]
                if self._outstanding[due[1]].is_resting(due[2]):
                    return due
                heapq.heappop(self._resting)
            return None

    def _prepare(self) -> None:
        """Make a delivery of the record on its way, or park it. May have to wait."""
        with self._preparing:
            record = self._on_its_way
            if not isinstance(record, Record):
                # A step that was cancelled has got so far after all.
                return
            outstanding = self._outstanding[record.partition]
            with self._lock:
                count = outstanding.upcoming(record.offset)
            if count <= self._deliveries_max:
                self._count(outstanding, record, count)
                self._on_its_way = self._deliver(outstanding, record)
                return
            self._park(outstanding, record, count - 1, _NEVER_DEALT_WITH)
            self._on_its_way = None

    def _count(self, outstanding: Outstanding, record: Record, count: int) -> None:
        """Store the count before the delivery, which may be the end of this process."""
        with self._lock:
            if count == 1 and record.offset != outstanding.floor:
                return
            kept = {**outstanding.worth_keeping(), record.offset: count}
            floor = outstanding.floor
        self._counts.store(record.partition, floor, kept)

    def _deliver(self, outstanding: Outstanding, record: Record) -> Delivery | None:
        with self._lock:
            if outstanding.is_dealt_with(record.offset):
                # Acked by another thread while it was on its way to come again.
                return None
            return Delivery(record, outstanding.deliver(record.offset))

    def _park(self, outstanding: Outstanding, record: Record, count: int, reason: str) -> None:
        park(self._log, self._topic, record, self._name, deliveries=count, reason=reason)
        with self._lock:
            outstanding.take_on(record.offset)
        self.ack(record)
        # Whoever goes back to it later wants to have it, and not to have it parked again.
        with self._lock:
            kept, floor = outstanding.worth_keeping(), outstanding.floor
        self._counts.store(record.partition, floor, kept)

    def _hand_over(self) -> Delivery | None:
        made = self._on_its_way
        if not isinstance(made, Delivery):
            return None
        self._on_its_way = None
        return made

    def _deadline(self, timeout_s: float | None) -> float | None:
        checked_s = check_timeout(timeout_s)
        return None if checked_s is None else self._clock.monotonic() + checked_s

    def _is_over(self, deadline: float | None) -> bool:
        return deadline is not None and self._clock.monotonic() >= deadline

    def _rest_s(self, deadline: float | None) -> float:
        now = self._clock.monotonic()
        with self._lock:
            due = self._resting[0][0] if self._resting else now + POLL_S
        ends = (due, now + POLL_S) if deadline is None else (due, now + POLL_S, deadline)
        return max(0.0, min(ends) - now)

    def _check_room(self) -> None:
        with self._lock:
            for partition, outstanding in self._outstanding.items():
                if len(outstanding) >= OUTSTANDING_MAX:
                    raise UnavailableError(
                        "too many records are outstanding, ack the first of them",
                        partition=partition,
                        first=outstanding.floor,
                    )
