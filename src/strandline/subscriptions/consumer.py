"""A named reader that says what it has dealt with, and gets the rest again."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from strandline.clock import Clock, SystemClock
from strandline.log.protocol import Log, TopicName
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
)

DELIVERIES_MAX: Final = 5
"""After how many deliveries a record that is nacked again is parked."""

OUTSTANDING_MAX: Final = 1024
"""How many records a consumer is given beyond the first that it has not dealt with."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record handed to a consumer."""

    record: Record
    count: int
    """How often this consumer object was given it, this time included."""


class Consumer:
    """Reads a topic from its cursor, which follows what is acked. At least once.

    A record is outstanding from its delivery until it is acked or parked. The cursor in
    the log is the first outstanding one, so a record that is nacked holds it back while
    later ones are dealt with; after a restart everything from the cursor on comes again,
    and deliveries are counted anew. A partition without a cursor begins at `start`.

    `ack`, `nack` and `lag` may be called from any thread; the rest from one at a time,
    and none of it on an event loop. Two members of one name split its partitions by hand:
    `partitions` and `assign`; None stands for all.
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
        self._tenant = tenant
        self._start = start
        self._deliveries_max = deliveries_max
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._outstanding: dict[int, Outstanding] = {}
        self._resting: list[tuple[float, int, int]] = []
        parking_name(self._topic)
        self._subscription: Subscription[Record] = open_subscription(
            log, self._topic, partitions=(), read_ahead=read_ahead, clock=self._clock
        )
        count = log.describe_topic(self._topic).settings.partitions
        try:
            self.assign(range(count) if partitions is None else partitions)
        except BaseException:
            self.close()
            raise

    def assign(self, partitions: Iterable[int]) -> None:
        """Read exactly these partitions from now on, new ones from the cursor.

        What was outstanding in one that is given up goes to whoever reads it next.
        """
        wanted = set(partitions)
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
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        while True:
            if again := self._again():
                return again
            self._check_room()
            rest_s = self._rest_s(deadline)
            if record := self._subscription.next(rest_s):
                return self._deliver(record)
            if deadline is not None and self._clock.monotonic() >= deadline:
                return self._again()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        try:
            delivery = self.next()
        except ClosedError:
            raise StopIteration from None
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
        with self._lock:
            outstanding = self._of(record)
            count = outstanding.count(record.offset)
            if count < self._deliveries_max:
                if outstanding.rest(record.offset):
                    due = self._clock.monotonic() + delay_s
                    heapq.heappush(self._resting, (due, record.partition, record.offset))
                return False
        park(self._log, self._topic, record, self._name, deliveries=count, reason=reason)
        self.ack(record)
        return True

    def seek(self, partition: int, offset: int) -> None:
        """Go to `offset`, forwards or back, and forget what is outstanding there."""
        self._log.seek(self._topic, self._name, partition, offset, tenant=self._tenant)
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
        with self._lock:
            self._outstanding[partition] = Outstanding(assignment.position(partition))

    def _leave(self, partition: int) -> None:
        self._subscription.assignment.remove(partition)
        with self._lock:
            self._outstanding.pop(partition, None)

    def _of(self, record: Record) -> Outstanding:
        if record.topic == self._topic.name and record.partition in self._outstanding:
            return self._outstanding[record.partition]
        raise InvalidError(
            "this consumer does not read the record's partition",
            topic=record.topic,
            partition=record.partition,
        )

    def _deliver(self, record: Record) -> Delivery:
        with self._lock:
            return Delivery(record, self._outstanding[record.partition].deliver(record.offset))

    def _again(self) -> Delivery | None:
        while (place := self._due()) is not None:
            for record in self._log.read(self._topic, *place, records_max=1):
                return self._deliver(record)
        return None

    def _due(self) -> tuple[int, int] | None:
        with self._lock:
            while self._resting and self._resting[0][0] <= self._clock.monotonic():
                _, partition, offset = heapq.heappop(self._resting)
                outstanding = self._outstanding.get(partition)
                if outstanding is not None and outstanding.rouse(offset):
                    return partition, offset
            return None

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
