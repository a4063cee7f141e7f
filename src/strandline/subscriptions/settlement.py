"""What was delivered and is settled by its consumer: acks of one, of several, of all before."""

from collections.abc import Mapping, Sequence

from strandline.groups import Membership
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.delivery import Delivery, record_of
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.rebalancing import Rebalancing
from strandline.subscriptions.redriven import Redriven
from strandline.values import InvalidError, LeaseLostError, Offset, Partition, Record


class Settlement:
    """Finds what a delivered record belongs to, and acks it there. Thread-safe."""

    def __init__(
        self,
        whose: ConsumerName,
        counting: Counting,
        acks: Acks,
        redriven: Redriven,
        *,
        membership: Membership,
        rebalancing: Rebalancing,
    ) -> None:
        self._topic, self._consumer, _ = whose
        self._lock = counting.lock
        self._outstanding = counting.outstanding
        self._acks = acks
        self._redriven = redriven
        self._membership = membership
        self._rebalancing = rebalancing

    def ack(self, delivered: Record | Delivery, *, up_to: bool) -> Offset:
        """Ack one, or everything up to it."""
        record = record_of(delivered)
        with self._acks.storing:
            if self._redriven.holds(record):
                return self._ack_redriven(record)
            with self._lock:
                outstanding = self.of(delivered)
                offset = record.offset
                offsets = outstanding.up_to(offset) if up_to else [offset]
            self._check_leases({record.partition: outstanding})
            return self._acks.settle(record.partition, outstanding, offsets)

    def ack_many(self, delivered: Sequence[Record | Delivery]) -> Mapping[Partition, Offset]:
        """Ack each of these, with one write of all their cursors."""
        with self._acks.storing:
            found, redriven = self._by_partition(delivered)
            self._check_leases({n: outstanding for n, (outstanding, _) in found.items()})
            cursors = {**self._acks.settle_each(found)}
            for record in redriven:
                cursors[record.partition] = self._ack_redriven(record)
        return cursors

    def _by_partition(
        self, delivered: Sequence[Record | Delivery]
    ) -> tuple[Mapping[Partition, tuple[Outstanding, set[int]]], Sequence[Record]]:
        """Return what is acked of each partition, and what was redriven. Raises as `of`."""
        found: dict[Partition, tuple[Outstanding, set[int]]] = {}
        redriven = []
        known: dict[tuple[str, int, int], set[int]] = {}
        with self._lock:
            for each in delivered:
                record = record_of(each)
                if self._redriven.holds(record):
                    redriven.append(record)
                    continue
                generation = each.generation if isinstance(each, Delivery) else 0
                place = record.topic, record.partition, generation
                offsets = known.get(place)
                if offsets is None:
                    belongs = found.setdefault(record.partition, (self.of(each), set()))
                    offsets = known[place] = belongs[1]
                offsets.add(record.offset)
        return found, redriven

    def of(self, delivered: Record | Delivery) -> Outstanding:
        """Return what the record belongs to. The caller holds the lock.

        InvalidError for a record of another partition, LeaseLostError where that went to
        another member.
        """
        record = record_of(delivered)
        if record.topic == self._topic.name:
            outstanding = self._outstanding.get(record.partition)
            if outstanding is not None:
                if isinstance(delivered, Delivery):
                    self._check_generation(delivered, outstanding)
                return outstanding
            if record.partition in self._rebalancing.left:
                raise self.lost(record.partition)
        raise InvalidError(
            "this consumer does not read the record's partition",
            topic=record.topic,
            partition=record.partition,
        )

    def holds(self, delivered: Record | Delivery) -> bool:
        """Whether the record is outstanding here, under a lease that surely holds."""
        record = record_of(delivered)
        if self._redriven.holds(record):
            return True
        if not self._membership.is_valid:
            return False
        try:
            with self._lock:
                return self.of(delivered).is_outstanding(record.offset)
        except (InvalidError, LeaseLostError):
            return False

    def check_held(self, delivered: Record | Delivery) -> None:
        """Raise as `of`; asks the log where the lease is in doubt."""
        with self._lock:
            outstanding = self.of(delivered)
        self._check_leases({record_of(delivered).partition: outstanding})

    def lost(self, partition: int, generation: int | None = None) -> LeaseLostError:
        """Return the error for a partition that went to another member."""
        return LeaseLostError(
            partition, topic=self._topic.name, consumer=self._consumer, generation=generation
        )

    def _check_leases(self, held: Mapping[Partition, Outstanding]) -> None:
        # As long as the lease surely holds, no other member can have taken over.
        if self._membership.is_valid:
            return
        self._acks.check_held({n: each.generation for n, each in held.items() if each.generation})

    def _check_generation(self, delivered: Delivery, outstanding: Outstanding) -> None:
        if delivered.generation and delivered.generation != outstanding.generation:
            raise self.lost(delivered.record.partition, delivered.generation)

    def _ack_redriven(self, record: Record) -> Offset:
        with self._lock:
            outstanding = self._outstanding.get(record.partition)
            is_twice = outstanding is not None and outstanding.is_outstanding(record.offset)
        if outstanding is not None and is_twice:
            # It was gone back to as well, and need not come a second time.
            self._acks.settle(record.partition, outstanding, [record.offset])
        self._redriven.ack(record)
        return Offset(record.offset + 1) if outstanding is None else outstanding.floor
