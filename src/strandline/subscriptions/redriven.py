"""Dead letters redriven to a consumer: delivered as their original records."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline.clock import Clock
from strandline.log import Log
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.dead_letters import append_dead_letter
from strandline.subscriptions.delivery import NEVER_HANDLED, Delivery
from strandline.subscriptions.outstanding import DELIVERIES_MAX
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.redriving import (
    is_for,
    may_be_redriven,
    original,
    redrive_partitions,
    redrive_topic,
)
from strandline.values import InvalidError, Record, Topic, UnavailableError

if TYPE_CHECKING:
    from strandline.subscriptions.consumer import Consumer

_AT_ONCE: Final = float("-inf")


class _Carrier(NamedTuple):
    """A record of the redrive topic, and how often the record that it carries was delivered."""

    record: Record
    deliveries: int


class Redriven:
    """A consumer's records from its topic's redrive topic. Thread-safe.

    A reader of the redrive topic, with the consumer's own name, keeps the cursor and the
    counts; it is opened once there may be anything to read.
    """

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        *,
        deliveries_max: int | None,
        clock: Clock,
        lease_s: float,
    ) -> None:
        self._log = log
        self._whose = whose
        self._topic = whose.topic
        self._deliveries_max = DELIVERIES_MAX if deliveries_max is None else deliveries_max
        #: One more than allowed: this class dead-letters such a record, for the original topic.
        self._reader_max = None if deliveries_max is None else deliveries_max + 1
        self._clock = clock
        self._lease_s = lease_s
        self._lock = threading.RLock()
        #: Whether there may be anything to read.
        self.is_expected: bool = False
        self._is_closed = False
        self._look_at = _AT_ONCE
        #: None in a group: the reader's own group assigns the partitions.
        self._partitions: frozenset[int] | None = None
        self._reader: Consumer | None = None
        self._ready: deque[Delivery] = deque()
        #: By the partition and offset of the original record.
        self._carriers: dict[tuple[int, int], dict[tuple[int, int], _Carrier]] = {}

    def expect(self) -> None:
        """Check for redriven records from now on."""
        self.is_expected = True

    def expect_if_any(self) -> None:
        """Check for redriven records from now on, if anything was ever dead-lettered."""
        if may_be_redriven(self._log, self._topic):
            self.expect()

    def assign(self, partitions: Iterable[int]) -> None:
        """Take redriven records of exactly these partitions."""
        with self._lock:
            wanted = frozenset(partitions)
            if self._reader is not None:
                self._reader.assign(self._readable(wanted))
            self._partitions = wanted

    def is_due(self, now: float) -> bool:
        """Whether it is time to call `look`."""
        return self.is_expected and now >= self._look_at

    def look(self) -> None:
        """Prepare the next record for `take`, if there is one. May have to wait."""
        with self._lock:
            if not self.is_expected or self._ready:
                return
            self._look_at = self._clock.monotonic() + POLL_S
            try:
                while not self._ready and self._step():
                    pass
            except UnavailableError:
                # The next look tries again; meanwhile the topic's own records are delivered.
                return
            if self._ready:
                self._look_at = _AT_ONCE

    def take(self) -> Delivery | None:
        """Return the prepared delivery, if there is one."""
        return self._ready.popleft() if self._ready else None

    def holds(self, record: Record) -> bool:
        """Whether the record was delivered by this object and is outstanding."""
        return self.is_expected and (record.partition, record.offset) in self._carriers

    def ack(self, records: Iterable[Record]) -> None:
        """Mark these records as handled, all or, if it raises, none. May have to wait."""
        with self._lock:
            carriers = [
                (record, place, carrier.record)
                for record in records
                for place, carrier in self._carriers.get(
                    (record.partition, record.offset), {}
                ).items()
            ]
            if not carriers:
                return
            self._the_reader().ack([carrier for _, _, carrier in carriers])
            for record, place, _ in carriers:
                self._drop(record, place)

    def nack(self, record: Record, *, delay_s: float, reason: str) -> bool:
        """Have the record delivered again, or dead-letter it again after the last try."""
        with self._lock:
            carrier = self._last(record)
            if carrier.deliveries >= self._deliveries_max:
                self._dead_letter(record, carrier.record, carrier.deliveries, reason)
                return True
            self._the_reader().nack(carrier.record, delay_s=delay_s)
            self._look_at = _AT_ONCE
            return False

    def put_back(self, record: Record) -> None:
        """Have a record delivered again that no caller has seen, uncounted."""
        with self._lock:
            self._the_reader()._put_back([self._last(record).record])  # noqa: SLF001 - Its class's.
            self._look_at = _AT_ONCE

    def dead_letter(self, record: Record, *, reason: str) -> None:
        """Dead-letter the record again. May have to wait."""
        with self._lock:
            carrier = self._last(record)
            self._dead_letter(record, carrier.record, carrier.deliveries, reason)

    def close(self) -> None:
        """Deliver nothing more; outstanding records are delivered again later."""
        # Without the lock: closing must not wait for a running look.
        self._is_closed = True
        self._ready.clear()
        if self._reader is not None:
            self._reader.close()

    def _step(self) -> bool:
        """Take one record of the redrive topic; False if there is none."""
        if self._reader is None:
            self._reader = self._new_reader(redrive_topic(self._log, self._topic))
            if self._is_closed:
                # A concurrent close did not see the reader.
                self._reader.close()
        found = self._reader.next(0.0)
        if found is None:
            return False
        carrier = found.record
        if not is_for(carrier, *self._whose):
            self._reader.ack(carrier)
            return True
        record = original(self._log, self._topic, carrier)
        if found.count > self._deliveries_max:
            self._dead_letter(record, carrier, found.count - 1, NEVER_HANDLED)
            return True
        at = self._carriers.setdefault((record.partition, record.offset), {})
        at[carrier.partition, carrier.offset] = _Carrier(carrier, found.count)
        self._ready.append(Delivery(record, found.count))
        return True

    def _new_reader(self, topic: Topic) -> Consumer:
        from strandline.subscriptions.consumer import Consumer  # noqa: PLC0415 - Made of this.

        return Consumer(
            *(self._log, topic, self._whose.name),
            tenant=self._whose.tenant,
            partitions=None if self._partitions is None else self._readable(self._partitions),
            deliveries_max=self._reader_max,
            clock=self._clock,
            redriven=False,
            lease_s=self._lease_s,
        )

    def _dead_letter(self, record: Record, carrier: Record, count: int, reason: str) -> None:
        append_dead_letter(
            *(self._log, self._whose, record),
            deliveries=count,
            reason=reason,
            carrier=carrier,
        )
        self._the_reader().ack(carrier)
        self._drop(record, (carrier.partition, carrier.offset))

    def _drop(self, record: Record, place: tuple[int, int]) -> None:
        at = self._carriers.get((record.partition, record.offset), {})
        at.pop(place, None)
        if not at:
            self._carriers.pop((record.partition, record.offset), None)

    def _last(self, record: Record) -> _Carrier:
        found = self._carriers.get((record.partition, record.offset))
        if not found:
            raise InvalidError(
                "this record is not outstanding, nack what was delivered", offset=record.offset
            )
        return [*found.values()][-1]

    def _readable(self, partitions: Iterable[int]) -> list[int]:
        return redrive_partitions(self._log, self._topic, partitions)

    def _the_reader(self) -> Consumer:
        assert self._reader is not None
        return self._reader
