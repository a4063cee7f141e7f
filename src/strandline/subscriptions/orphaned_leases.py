"""Settling the leases of a work queue's member that has ended. See design 0100."""

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.held_deliveries import HeldDeliveries
from strandline.subscriptions.queue_state import FREE, Lease
from strandline.subscriptions.queue_store import QueueStore
from strandline.subscriptions.shared_consumer import SharedConsumer
from strandline.subscriptions.waiting import due_in
from strandline.values import Record, Topic, parse_tenant


def member_id(consumer: SharedConsumer) -> str:
    """Return the id that names a member in its leases."""
    return consumer._member  # noqa: SLF001 - Of the same room.


class OrphanedLeases:
    """Deliveries that a work queue's member left unsettled, given by record and count.

    Until another member has taken a record, it is settled as by the ended member itself.
    """

    def __init__(self, log: Log, topic: Topic, name: str, tenant: str | None, member: str) -> None:
        self._clock: Clock = parts_of(log).clock
        self._queue = QueueStore(log, ConsumerName(topic, name, parse_tenant(tenant)))
        self._held = HeldDeliveries(self._queue, topic, member)
        self._member = member

    def ack(self, record: Record, count: int) -> None:
        """Mark the record as handled. May be repeated; ConflictError if another member has it."""
        if self._queue.look(record.partition).is_settled(record.offset):
            return
        self._held.add(record, count)
        if self._held.settle(record.partition, [record.offset]):
            raise self._held.lost(record.partition, record.offset)

    def nack(self, record: Record, count: int, delay_s: float) -> None:
        """Have the record delivered again after `delay_s`. Raises as `ack`."""
        self._replace(record, count, delay_s, FREE)

    def extend(self, record: Record, count: int, visibility_s: float) -> None:
        """Hide the record from other members for `visibility_s` from now on. Raises as `ack`."""
        self._replace(record, count, visibility_s, self._member)

    def _replace(self, record: Record, count: int, after_s: float, holder: str) -> None:
        until_us = due_in(self._clock, after_s)
        self._held.add(record, count)
        self._held.replace(record, lambda lease: Lease(lease.offset, count, until_us, holder))
