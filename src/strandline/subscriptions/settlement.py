"""Settles delivered records: acks of one, of several, or of all up to one."""

from collections.abc import Mapping, Sequence
from typing import Final

from strandline.groups import Membership
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.delivery import Delivery, record_of
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.rebalancing import Rebalancing
from strandline.subscriptions.redriven import Redriven
from strandline.values import (
    InvalidError,
    LeaseLostError,
    Offset,
    Partition,
    Record,
    StrandlineError,
)

_OTHERS_ARE_ACKED: Final = (
    "what was not redriven is acked: pass the same records again, which acks the rest"
)


class Settlement:
    """Finds the state that a delivered record belongs to, and acks it there. Thread-safe."""

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
        """Ack each of these: those of the topic with one write, then the redriven ones."""
        with self._acks.storing:
            found, redriven = self._by_partition(delivered)
            self._check_leases({n: outstanding for n, (outstanding, _) in found.items()})
            cursors = {**self._acks.settle_each(found)}
            try:
                self._redriven.ack(redriven)
            except StrandlineError as error:
                if found:
                    error.add_note(_OTHERS_ARE_ACKED)
                raise
            for record in redriven:
                cursors[record.partition] = self._cursor_after(record)
        return cursors

    def _by_partition(
        self, delivered: Sequence[Record | Delivery]
    ) -> tuple[Mapping[Partition, tuple[Outstanding, set[int]]], Sequence[Record]]:
        """Return the offsets to ack of each partition, and the redriven records. Raises as `of`."""
        found: dict[Partition, tuple[Outstanding, set[int]]] = {}
        redriven = []
        known: dict[tuple[str, int, int], set[int]] = {}
        with self._lock:
            for each in delivered:
                record = record_of(each)
                if self._redriven.holds(record):
                    redriven.append(record)
                    outstanding = self._outstanding_besides(record)
                    if outstanding is not None:
                        of_topic = found.setdefault(record.partition, (outstanding, set()))
                        of_topic[1].add(record.offset)
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
        """Return the state of the record's partition. The caller holds the lock.

        InvalidError for a partition that is not read here, LeaseLostError if it went to
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
        """Whether the record is outstanding here, under a lease that certainly holds."""
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
        """Raise as `of`; reads the log if the lease may have expired."""
        with self._lock:
            outstanding = self.of(delivered)
        self._check_leases({record_of(delivered).partition: outstanding})

    def lost(self, partition: int, generation: int | None = None) -> LeaseLostError:
        """Return the error for a partition that went to another member."""
        return LeaseLostError(
            partition, topic=self._topic.name, consumer=self._consumer, generation=generation
        )

    def _check_leases(self, held: Mapping[Partition, Outstanding]) -> None:
        # While the lease certainly holds, no other member can have taken over.
        if self._membership.is_valid:
            return
        self._acks.check_held({n: each.generation for n, each in held.items() if each.generation})

    def _check_generation(self, delivered: Delivery, outstanding: Outstanding) -> None:
        if delivered.generation and delivered.generation != outstanding.generation:
            raise self.lost(delivered.record.partition, delivered.generation)

    def _ack_redriven(self, record: Record) -> Offset:
        with self._lock:
            outstanding = self._outstanding_besides(record)
        if outstanding is not None:
            self._acks.settle(record.partition, outstanding, [record.offset])
        self._redriven.ack([record])
        return self._cursor_after(record)

    def _outstanding_besides(self, record: Record) -> Outstanding | None:
        """Return the outstanding records with this one, if a seek back delivered it as well."""
        outstanding = self._outstanding.get(record.partition)
        # It need not come a second time.
        is_twice = outstanding is not None and outstanding.is_outstanding(record.offset)
        return outstanding if is_twice else None

    def _cursor_after(self, record: Record) -> Offset:
        outstanding = self._outstanding.get(record.partition)
        return Offset(record.offset + 1) if outstanding is None else outstanding.floor
