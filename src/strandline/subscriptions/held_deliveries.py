"""The deliveries that a member of a work queue holds, and settling them. See design 0096."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from strandline.subscriptions.queue_state import (
    FREE,
    Lease,
    QueueState,
    given_back,
    with_lease,
    with_settled,
)
from strandline.subscriptions.queue_store import QueueStore
from strandline.values import ConflictError, InvalidError, Offset, Record, Topic


class HeldRecord(NamedTuple):
    """A delivery that this member made."""

    record: Record
    deliveries: int


class HeldDeliveries:
    """What one member holds. Any thread may use it; one at a time settles."""

    def __init__(self, queue: QueueStore, topic: Topic, member: str) -> None:
        self._queue = queue
        self._topic = topic
        self._member = member
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], HeldRecord] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, record: Record, deliveries: int) -> None:
        """Add a record that was delivered to this member, and its number of deliveries."""
        with self._lock:
            self._held[record.partition, record.offset] = HeldRecord(record, deliveries)

    def drop(self, partition: int, offsets: Iterable[int]) -> None:
        """Remove these records."""
        with self._lock:
            for offset in offsets:
                self._held.pop((partition, offset), None)

    def drop_partition(self, partition: int) -> None:
        """Remove all records of a partition."""
        with self._lock:
            self._held = {each: held for each, held in self._held.items() if each[0] != partition}

    def give_back(self) -> None:
        """Release everything to other members."""
        with self._lock:
            partitions = {partition for partition, _ in self._held}
        for partition in sorted(partitions):
            self._queue.change(partition, lambda state: (given_back(state, self._member), None))

    def put_back(self, partition: int, offsets: Collection[int]) -> None:
        """Release records that no caller has seen, uncounted; ignore those that were lost."""

        def change(state: QueueState) -> tuple[QueueState, None]:
            leases = tuple(
                Lease(each.offset, each.count - 1, 0, FREE)
                if each.offset in offsets and self._is_ours(partition, each)
                else each
                for each in state.leases
            )
            return msgspec.structs.replace(state, leases=leases), None

        self._queue.change(partition, change)
        self.drop(partition, offsets)

    def deliveries_of(self, record: Record, partitions: int) -> int:
        """Return how often a held record was delivered; InvalidError if it is not held."""
        held = self._of(record)
        if held is not None:
            return held.deliveries
        self.check_known([record], partitions)
        raise InvalidError("this record is settled already, drop it", **_named(record))

    def check_known(self, records: Iterable[Record], partitions: int) -> None:
        """Raise InvalidError for a record that is neither held nor settled."""
        states: dict[int, QueueState] = {}
        for record in records:
            if self._of(record) is not None:
                continue
            number = record.partition
            if record.topic == self._topic.name and number < partitions:
                if number not in states:
                    states[number] = self._queue.look(number)
                if states[number].is_settled(record.offset):
                    continue
            raise InvalidError(
                "this record is not held by this consumer, pass what it delivered",
                **_named(record),
            )

    def settle(self, partition: int, offsets: Sequence[int]) -> list[int]:
        """Settle records, and return those that this member has lost."""

        def settle(state: QueueState) -> tuple[QueueState, list[int]]:
            leases = {each.offset: each for each in state.leases}
            ours = {each for each in offsets if self._is_ours(partition, leases.get(each))}
            # Records that this member has settled before are not held any more.
            lost = [
                each
                for each in offsets
                if each not in ours
                and ((partition, each) in self._held or not state.is_settled(each))
            ]
            return with_settled(state, ours), lost

        _, lost = self._queue.change(partition, settle)
        self.drop(partition, offsets)
        return lost

    def settle_unseen(self, record: Record, deliveries: int) -> None:
        """Settle a leased record that no caller gets; ignore it if the lease was lost."""
        place = record.partition, record.offset
        with self._lock:
            before = self._held.get(place)
        self.add(record, deliveries)
        self.settle(record.partition, [record.offset])
        if before is not None:
            self.add(*before)

    def replace(self, record: Record, replaced: Callable[[Lease], Lease]) -> None:
        """Replace the lease of a record that this member holds; ConflictError if it does not."""
        partition, offset = record.partition, record.offset

        def change(state: QueueState) -> tuple[QueueState, bool]:
            lease = state.lease(offset)
            if lease is None or not self._is_ours(partition, lease):
                return state, False
            return with_lease(state, replaced(lease)), True

        _, is_ours = self._queue.change(partition, change)
        if not is_ours:
            self.drop(partition, [offset])
            raise self.lost(partition, offset)

    def lost(self, partition: int, offset: int) -> ConflictError:
        """Return the error for a record that this member has lost."""
        return ConflictError(
            "the lease of this record has expired and another member has it, or had, or a seek has"
            " moved the queue: discard your work on it, and extend leases in time",
            topic=self._topic.name,
            partition=partition,
            offset=Offset(offset),
        )

    def _of(self, record: Record) -> HeldRecord | None:
        with self._lock:
            held = self._held.get((record.partition, record.offset))
        return held if record.topic == self._topic.name else None

    def _is_ours(self, partition: int, lease: Lease | None) -> bool:
        if lease is None or lease.holder != self._member:
            return False
        held = self._held.get((partition, lease.offset))
        return held is not None and held.deliveries == lease.count


def _named(record: Record) -> dict[str, object]:
    return {"topic": record.topic, "partition": record.partition, "offset": record.offset}
