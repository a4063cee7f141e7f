"""Counts a consumer's deliveries in the log, before each is made. See design 0071."""

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from strandline.log import Log
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.delivery import Delivery, record_of
from strandline.subscriptions.delivery_counts import DeliveryCounts
from strandline.subscriptions.outstanding import Outstanding
from strandline.values import Offset, Partition, Record, StrandlineError, UnavailableError
from strandline.values.arguments import check_items

AHEAD_MIN: Final = 8
AHEAD_MAX: Final = 64
"""How many deliveries may be counted ahead."""


class Counting:
    """The outstanding records of each partition, and the notes that store their counts.

    Any thread may use it. `lock` guards the outstanding records, and is never held during I/O.
    """

    def __init__(self, log: Log, whose: ConsumerName, deliveries_max: int | None) -> None:
        self.lock: Final = threading.Lock()
        self.outstanding: dict[int, Outstanding] = {}
        self._log = log
        self._topic = whose.topic
        self._deliveries_max = deliveries_max
        self._notes = DeliveryCounts(log, *whose)
        self._noting = threading.Lock()
        self._isolated: tuple[Outstanding, int] | None = None
        """The record in flight that must be alone; it may have been settled meanwhile."""

    def enter(
        self, partition: int, floor: Offset, generation: int, *, seek_id: UUID | None
    ) -> None:
        """Start counting in a partition, from the notes of earlier processes since this seek."""
        attempts = self._notes.load(partition, floor, seek_id)
        outstanding = Outstanding(floor, attempts, generation)
        with self.lock:
            self.outstanding[partition] = outstanding

    def restart(self, partition: int, floor: int, generation: int, *, seek_id: UUID | None) -> None:
        """Drop all counts of a partition whose cursor is at `floor` since this seek."""
        with self._noting:
            self._notes.restart(partition, floor, generation, seek_id)

    def floors(self) -> dict[Partition, Offset]:
        """Return the first unsettled offset of each partition."""
        with self.lock:
            return {Partition(n): each.floor for n, each in self.outstanding.items()}

    def unsettled(self, highs: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return how many records before these ends are not settled."""
        with self.lock:
            return {
                number: self.outstanding[number].unsettled(high)
                for number, high in highs.items()
                if number in self.outstanding
            }

    def check_room(self) -> None:
        """Raise UnavailableError unless each partition may have one more outstanding record."""
        with self.lock:
            for partition, outstanding in self.outstanding.items():
                outstanding.check_room(partition)

    def check_alone(self, record: Record, allowed: int) -> None:
        """Raise UnavailableError if this record, or one in flight, must be delivered alone."""
        with self.lock:
            outstanding = self.outstanding[record.partition]
            in_flight = self._in_flight_besides(record)
            must_be_alone = outstanding.attempts(record.offset).count >= allowed
            if in_flight and (must_be_alone or self._is_one_isolated()):
                raise UnavailableError(
                    "a record that was in flight when processes ended is delivered alone: ack or"
                    " nack the others before you take the next one",
                    partition=record.partition,
                    offset=record.offset,
                    in_flight=in_flight,
                )
            if must_be_alone:
                self._isolated = outstanding, record.offset

    def count(self, record: Record) -> None:
        """Count a delivery that is about to be made, whose handling may kill this process.

        The same note counts further first deliveries ahead: as many as are in flight, at
        least AHEAD_MIN.
        """
        outstanding = self.outstanding[record.partition]
        with self.lock:
            in_flight = self._in_flight_besides(record)
            is_reserved = outstanding.is_reserved(record.offset)
            # A caller that isolates suspects reads ahead, and decides itself which record is alone.
            is_alone = False
            if self._deliveries_max is not None:
                is_alone = not in_flight and not is_reserved
                if in_flight:
                    for each in self.outstanding.values():
                        each.share()
            outstanding.begin(record.offset, alone=is_alone)
            if not is_reserved:
                outstanding.is_noted = False
            unnoted = [n for n, each in self.outstanding.items() if not each.is_noted]
        end = 0 if is_reserved else self._end_ahead(record, in_flight)
        for partition in unnoted:
            self.note(partition, end if partition == record.partition else 0)

    @property
    def is_one_isolated(self) -> bool:
        """Whether a record is in flight that must be alone."""
        with self.lock:
            return self._is_one_isolated()

    def count_many(self, by_partition: Mapping[int, Sequence[int]]) -> None:
        """Count first deliveries about to be made together, with one note for each partition."""
        with self.lock:
            is_alone = False
            if self._deliveries_max is not None:
                is_one = sum(map(len, by_partition.values())) == 1
                is_alone = is_one and not any(each.in_flight() for each in self._each())
                for each in () if is_alone else self._each():
                    each.share()
            for partition, offsets in by_partition.items():
                outstanding = self.outstanding[partition]
                outstanding.begin_many(offsets, alone=is_alone)
                outstanding.is_noted = False
        self._note_all()

    def begin_alone(self, record: Record) -> None:
        """Count a delivery whose record, and no other, is handled from now on."""
        with self.lock:
            for each in self.outstanding.values():
                each.share()
            outstanding = self.outstanding[record.partition]
            outstanding.begin(record.offset, alone=True)
            outstanding.is_noted = False
        self._note_all()

    def end(self, partitions: Iterable[int] | None = None) -> None:
        """Have everything that was settled stored, also beyond the first unsettled record."""
        with self.lock:
            for partition in [*self.outstanding] if partitions is None else partitions:
                if partition in self.outstanding:
                    self.outstanding[partition].end()

    def hand_back(self, handled: Iterable[Record | Delivery]) -> None:
        """Uncount deliveries in flight that were never handled: all except these."""
        offsets: dict[int, list[int]] = {}
        for each in check_items("handled", handled):
            record = record_of(each)
            offsets.setdefault(record.partition, []).append(record.offset)
        with self.lock:
            for partition, outstanding in self.outstanding.items():
                # An orderly end is no record's fault.
                outstanding.share()
                outstanding.withdraw(offsets.get(partition, ()))
        self.release()

    def release(self) -> None:
        """Uncount what was counted ahead."""
        with self.lock:
            for outstanding in self.outstanding.values():
                outstanding.release()
        self._note_all()

    def try_release(self) -> None:
        """Uncount what was counted ahead, unless the log refuses to."""
        with contextlib.suppress(StrandlineError):
            self.release()

    def release_partition(self, partition: int) -> None:
        """Uncount what was counted ahead in one partition: another process reads it next."""
        with self.lock:
            outstanding = self.outstanding.get(partition)
            if outstanding is not None:
                outstanding.release()
        if outstanding is not None and not outstanding.is_noted:
            self.note(partition)

    def note(self, partition: int, reserved_end: int = 0) -> None:
        """Store what the consumer's next process needs to know of a partition."""
        # One thread at a time: the last note must be the latest.
        with self._noting:
            with self.lock:
                outstanding = self.outstanding.get(partition)
                if outstanding is None:
                    return
                outstanding.reserve(reserved_end)
                runs = outstanding.first_runs()
                kept = outstanding.worth_keeping(runs)
                # Not the floor: after a crash before it is stored, it would look like a seek back.
                cursor, generation = outstanding.stored, outstanding.generation
                outstanding.is_noted = True
            try:
                self._notes.store(partition, cursor, kept, generation, runs)
            except BaseException:
                with self.lock:
                    outstanding.release()
                    outstanding.is_noted = False
                raise

    def _note_all(self) -> None:
        with self.lock:
            unnoted = [n for n, each in self.outstanding.items() if not each.is_noted]
        for partition in unnoted:
            self.note(partition)

    def _each(self) -> Iterable[Outstanding]:
        return self.outstanding.values()

    def _is_one_isolated(self) -> bool:
        return self._isolated is not None and self._isolated[0].is_alone(self._isolated[1])

    def _in_flight_besides(self, record: Record) -> int:
        return sum(
            each.in_flight(besides=record.offset if partition == record.partition else None)
            for partition, each in self.outstanding.items()
        )

    def _end_ahead(self, record: Record, in_flight: int) -> int:
        if not in_flight:
            return record.offset + 1
        wanted = record.offset + 1 + min(max(in_flight, AHEAD_MIN), AHEAD_MAX)
        return min(wanted, self._log.marks(self._topic, record.partition).high)
