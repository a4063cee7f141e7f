"""A consumer's records that are delivered later than their offset implies. See design 0110."""

from collections.abc import Callable, Collection

from strandline.clock import Clock
from strandline.log import Log
from strandline.log.gaps import NO_GAPS, Gaps
from strandline.log.lags import ConsumerCursor
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.blocked_keys import BlockedKeys
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.key_order import KeyOrder
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.redeliveries import Due, Redeliveries
from strandline.values import InvalidError, Offset, Partition, Record
from strandline.values.arguments import INT64_MAX
from strandline.values.delivery_time import deliver_at_us

_AT_ONCE = 0
_US = 1_000_000


def due_in(clock: Clock, delay_s: float) -> int:
    """Return the wall-clock time after a delay, in microseconds."""
    return min(clock.now_us() + round(min(delay_s, INT64_MAX / _US) * _US), INT64_MAX)


class Waiting:
    """Nacked records, and records with a delivery time: they are delivered at that time.

    Reading of a partition with WAITING_MAX of them pauses until one was delivered. The caller
    lets one thread at a time call `enter`, `leave`, `postpone` and `resume_reading`.
    """

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        counting: Counting,
        acks: Acks,
        assignment: Assignment,
        *,
        clock: Clock,
        blocks_keys: bool,
        on_due: Callable[[], None],
    ) -> None:
        self._log = log
        self._whose = whose
        self._blocked = BlockedKeys(log, *whose) if blocks_keys else None
        self._order = KeyOrder()
        """Orders records that are delivered one after the other because of their key."""
        acks.on_settled(self._release)
        self._counting = counting
        self._lock = counting.lock
        self._acks = acks
        self._assignment = assignment
        self._clock = clock
        self._heap = Redeliveries()
        self._on_due = on_due
        """Called after another thread than the reader's may have added to the heap."""
        self.paused: dict[int, Offset] = {}
        """For each paused partition: where reading continues."""

    # --- partitions ---

    def enter(
        self, partition: int, start: int, generation: int, stored: ConsumerCursor | None
    ) -> None:
        """Read a partition from the cursor on, without records settled beyond it."""
        marks = self._log.marks(self._whose.topic, partition)
        gaps, seek_id = (NO_GAPS, None) if stored is None else (stored.gaps, stored.seek_id)
        gaps = gaps.before(marks.high) if start >= marks.low else NO_GAPS
        self._counting.enter(partition, Offset(start), generation, seek_id=seek_id)
        if gaps != NO_GAPS:
            self._resume(partition, start, gaps)
        # Last: the records between the gaps are due before any record beyond them is read.
        self._assignment.add(partition, max(start, gaps.reach))

    def leave(self, partition: int) -> None:
        """Stop reading a partition."""
        self._assignment.remove(partition)
        self.paused.pop(partition, None)
        with self._lock:
            self._heap.remove_partition(partition)
            self._order.drop(partition)

    def position(self, partition: int) -> Offset | None:
        """Return the next offset to read; None for a partition that is not read."""
        try:
            return self.paused.get(partition) or self._assignment.position(partition)
        except InvalidError:
            return None

    def reading_paused(self) -> list[Partition]:
        """Return the partitions whose reading is paused."""
        return [Partition(number) for number in self.paused]

    def resume_reading(self) -> None:
        """Resume reading of partitions in which fewer records wait now."""
        for partition, offset in tuple(self.paused.items()):
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is not None and not outstanding.is_full_of_waiting:
                self._assignment.add(partition, offset)
                del self.paused[partition]

    def _resume(self, partition: int, start: int, gaps: Gaps) -> None:
        topic = self._whose.topic
        outstanding = self._counting.outstanding[partition]
        now_us, delays = self._clock.now_us(), dict(gaps.delays)
        with self._lock:
            outstanding.resume(gaps, gaps.reach)
        for first, end in gaps.holes(start):
            for record in self._log.read(topic, partition, first, end):
                nacked_us = delays.get(record.offset)
                due_us = nacked_us or deliver_at_us(record) or _AT_ONCE
                with self._lock:
                    if nacked_us is not None or due_us <= now_us:
                        self._resume_order(record)
                    outstanding.resume_delay(record.offset, nacked_us, waits=due_us > now_us)
                    self._heap.add(Due(due_us, partition, record.offset))

    # --- keys ---

    def _resume_order(self, record: Record) -> None:
        """Register an open record, so that later records of its key wait for it."""
        if self._blocked is not None and record.key is not None:
            self._order.enter(record.partition, record.key, record.offset)

    @property
    def blocks_keys(self) -> bool:
        """Whether records of a key are delivered one at a time, and wait for dead letters."""
        return self._blocked is not None

    def is_blocked(self, outstanding: Outstanding, record: Record) -> bool:
        """Whether the record must wait until an earlier one of its key is settled.

        `is_early` checks its delivery time. May have to wait.
        """
        if self._blocked is None or record.key is None:
            return False
        partition, offset = record.partition, record.offset
        with self._lock:
            is_first = self._order.enter(partition, record.key, offset)
        if is_first and not self._is_behind_a_letter(self._blocked, record):
            return False
        with self._lock:
            outstanding.wait(offset)
            if is_first:
                self._heap.add(Due(due_in(self._clock, POLL_S), partition, offset))
        self.pause_if_full(outstanding, partition)
        return True

    def _is_behind_a_letter(self, blocked: BlockedKeys, record: Record) -> bool:
        if not blocked.is_blocked(record):
            return False
        blocked.look()
        return blocked.is_blocked(record)

    def _release(self, partition: int, offsets: Collection[int]) -> None:
        """Release records that waited for these."""
        if self._blocked is None:
            return
        is_due = False
        with self._lock:
            for offset in offsets:
                following = self._order.leave(partition, offset)
                if following is not None:
                    self._heap.add(Due(_AT_ONCE, partition, following))
                    is_due = True
        if is_due:
            self._on_due()

    def look_at_letters(self) -> None:
        """Read newly written dead letters. May have to wait."""
        if self._blocked is not None:
            self._blocked.look()

    # --- records ---

    def is_early(self, record: Record) -> bool:
        """Whether the record has a delivery time in the future."""
        due_us = deliver_at_us(record)
        return due_us is not None and due_us > self._clock.now_us()

    def postpone(self, outstanding: Outstanding, record: Record) -> None:
        """Postpone the record until its delivery time, or to the next step if that has passed."""
        due_us = deliver_at_us(record) or _AT_ONCE
        with self._lock:
            outstanding.wait(record.offset)
            self._heap.add(Due(due_us, record.partition, record.offset))
        self.pause_if_full(outstanding, record.partition)

    def pause_if_full(self, outstanding: Outstanding, partition: int) -> None:
        """Pause reading of the partition while too many of its records wait."""
        if outstanding.is_full_of_waiting and partition not in self.paused:
            offset = self._assignment.remove(partition)
            assert offset is not None
            self.paused[partition] = offset

    def delay(
        self, outstanding: Outstanding, record: Record, delay_s: float, *, is_stored: bool
    ) -> None:
        """Have a failed record delivered again; a stored delay outlives this process.

        May have to wait.
        """
        due_us = due_in(self._clock, delay_s) if delay_s else _AT_ONCE
        partition, offset = record.partition, record.offset
        with self._lock:
            if outstanding.is_delayed(offset):
                return
        if delay_s and is_stored:
            self._acks.delay(partition, outstanding, offset, due_us)
        with self._lock:
            if not outstanding.is_outstanding(offset):
                # Acked by another thread meanwhile.
                return
            if outstanding.delay(offset, due_us if delay_s and is_stored else None):
                self._heap.add(Due(due_us, partition, offset))
        self._on_due()
        if delay_s and is_stored:
            self._counting.note(partition)

    def put_back(self, outstanding: Outstanding, record: Record) -> None:
        """Have a record delivered again that no caller has seen."""
        with self._lock:
            if outstanding.put_back(record.offset):
                self._heap.add(Due(_AT_ONCE, record.partition, record.offset))
        self._on_due()

    def first(self) -> Due | None:
        """Return the first record that is due, if there is one."""
        with self._lock:
            return self._heap.first(self._clock.now_us(), self._counting.outstanding)

    def end(self, due: Due) -> bool:
        """End a record's wait; False if its partition was removed meanwhile."""
        with self._lock:
            if not self._heap.remove(due):
                return False
            self._counting.outstanding[due.partition].end_delay(due.offset)
            return True

    def wait_s(self, at_most: float) -> float:
        """Return how long until a record is due, at most `at_most`."""
        with self._lock:
            return self._heap.wait_s(self._clock.now_us(), at_most)
