"""Dead letters redriven to a work queue: delivered as their original records."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strandline.log import Log
from strandline.log.topics import is_internal_name
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.dead_letters import append_dead_letter
from strandline.subscriptions.delivery import NEVER_HANDLED, Delivery
from strandline.subscriptions.redriving import is_for, may_be_redriven, original, redrive_topic
from strandline.values import ConflictError, Record, Topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline.subscriptions.shared_consumer import SharedConsumer


class RedrivenQueue:
    """A member's records from its topic's redrive topic, a work queue of the same name."""

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        *,
        deliveries_max: int,
        new_reader: Callable[[Topic], SharedConsumer],
    ) -> None:
        self._log = log
        self._whose = whose
        self._topic = whose.topic
        self._deliveries_max = deliveries_max
        self._new_reader = new_reader
        self._is_redrive_topic = is_internal_name(whose.topic.name)
        self._reader: SharedConsumer | None = None
        #: By the partition and offset of the original record.
        self._carriers: dict[tuple[int, int], Delivery] = {}

    def look(self) -> Delivery | None:
        """Return the next redriven record; None if there is none. May block."""
        if self._reader is None:
            if self._is_redrive_topic or not may_be_redriven(self._log, self._topic):
                return None
            self._reader = self._new_reader(redrive_topic(self._log, self._topic))
        while (carrier := self._reader.next(timeout_s=0)) is not None:
            if not is_for(carrier.record, *self._whose):
                self._reader.ack(carrier)
                continue
            record = original(self._log, self._topic, carrier.record)
            if carrier.count > self._deliveries_max:
                self._append_dead_letter(record, carrier, carrier.count - 1, NEVER_HANDLED)
                # If this took so long that another member has it, that member does the same.
                with contextlib.suppress(ConflictError):
                    self._reader.ack(carrier)
                continue
            self._carriers[record.partition, record.offset] = carrier
            return Delivery(record, carrier.count)
        return None

    def holds(self, record: Record) -> bool:
        """Whether the record was delivered by this object and is not settled."""
        is_of_topic = record.topic == self._topic.name
        return is_of_topic and (record.partition, record.offset) in self._carriers

    def ack(self, record: Record) -> None:
        """Mark the record as handled."""
        self._the_reader().ack(self._carriers[record.partition, record.offset])
        self._drop(record)

    def nack(self, record: Record, *, delay_s: float, reason: str) -> bool:
        """Have the record delivered again, or dead-letter it again after the last try."""
        carrier = self._carriers[record.partition, record.offset]
        if carrier.count >= self._deliveries_max:
            self.dead_letter(record, reason=reason)
            return True
        self._the_reader().nack(carrier, delay_s=delay_s)
        self._drop(record)
        return False

    def put_back(self, record: Record) -> None:
        """Release a record that no caller has seen, uncounted."""
        carrier = self._carriers[record.partition, record.offset]
        self._the_reader()._put_back([carrier])  # noqa: SLF001 - Of the same class as the owner.
        self._drop(record)

    def extend(self, record: Record, visibility_s: float) -> None:
        """Hide the record from other members for longer."""
        self._the_reader().extend(self._carriers[record.partition, record.offset], visibility_s)

    def dead_letter(self, record: Record, *, reason: str) -> None:
        """Dead-letter the record again."""
        carrier = self._carriers[record.partition, record.offset]
        # A member that has lost the record must not dead-letter it.
        self._the_reader().extend(carrier)
        self._append_dead_letter(record, carrier, carrier.count, reason)
        self.ack(record)

    def forget(self, record: Record) -> None:
        """Drop the record: it was delivered from its own topic since, and that one counts."""
        self._drop(record)

    def close(self) -> None:
        """Release what this member holds to other members."""
        if self._reader is not None:
            self._reader.close()

    def _append_dead_letter(
        self, record: Record, carrier: Delivery, deliveries: int, reason: str
    ) -> None:
        append_dead_letter(
            *(self._log, self._whose, record),
            deliveries=deliveries,
            reason=reason,
            carrier=carrier.record,
        )

    def _the_reader(self) -> SharedConsumer:
        assert self._reader is not None
        return self._reader

    def _drop(self, record: Record) -> None:
        self._carriers.pop((record.partition, record.offset), None)
