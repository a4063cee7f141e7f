"""Turns records that were read into deliveries: one at a time, or as many as available.

A step's intermediate results are kept: first a record that was found, then the delivery made
of it, or gathered records that will be delivered together. If a step is interrupted, the next
one continues from them.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from strandline.clock import Clock
from strandline.log import Log
from strandline.log.draft import size_of
from strandline.log.lags import ConsumerCursor
from strandline.log.off_loop import CallsInTurn
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.delivery import NEVER_HANDLED, Delivery
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.passed_over import PassedOver
from strandline.subscriptions.screening import FailedRecord
from strandline.subscriptions.subscription import Subscription
from strandline.subscriptions.waiting import Waiting
from strandline.values import Record, Topic

ItemT = TypeVar("ItemT")

DeadLetter = Callable[[Outstanding, Record, int, str], None]
"""Dead-letters a record, with its number of deliveries and a reason."""


class FetchLimits(NamedTuple):
    """How much one fetch returns at most."""

    records: int
    bytes: int | None


class Deliveries:
    """The records of one consumer, between the log and its caller.

    One thread takes deliveries at a time; any thread may add and remove partitions.
    """

    def __init__(
        self,
        log: Log,
        topic: Topic,
        counting: Counting,
        subscription: Subscription[Record | FailedRecord],
        *,
        passed_over: PassedOver,
        waiting: Waiting,
        clock: Clock,
        deliveries_max: int | None,
        dead_letter: DeadLetter,
    ) -> None:
        self._log = log
        self._topic = topic
        self._counting = counting
        self._lock = counting.lock
        self._outstanding = counting.outstanding
        self._subscription = subscription
        self._take_nowait = subscription._take_nowait  # noqa: SLF001 - Shared by both faces.
        self._passed_over = passed_over
        self._waiting = waiting
        self._clock = clock
        self._deliveries_max = deliveries_max
        self._dead_letter = dead_letter
        self._preparing = threading.Lock()
        self._current: Record | FailedRecord | Delivery | None = None
        self._is_due_again = False
        """Whether the current record was due again, and not read for the first time."""
        self._gathered: deque[Record] = deque()
        self._taken: deque[Record | FailedRecord] = deque()
        """Records that were read, and come after the gathered ones."""
        self._made: deque[Delivery] = deque()
        """Deliveries made of gathered records, until they are taken."""

    # --- partitions ---

    def enter(
        self, partition: int, start: int, generation: int, stored: ConsumerCursor | None
    ) -> None:
        """Deliver this partition, too, from `start` on, with what is stored with its cursor.

        The caller looks at dead letters before, once for any number of partitions.
        """
        # Atomic for the taker: a record of a partition that is not counted is dropped.
        with self._preparing:
            self._waiting.enter(partition, start, generation, stored)

    def look_at_letters(self) -> None:
        """Read newly written dead letters of blocking keys. May have to wait."""
        self._waiting.look_at_letters()

    def stop(self, partition: int) -> None:
        """Deliver no more of this partition; delivered records stay outstanding."""
        with self._preparing:
            self._waiting.leave(partition)
            item = self._current
            record = item if item is None or isinstance(item, Record) else item.record
            if record is not None and record.partition == partition:
                self._current = None
            _keep(self._gathered, lambda each: each.partition != partition)
            _keep(self._taken, lambda each: _record(each).partition != partition)
            _keep(self._made, lambda each: each.record.partition != partition)

    def leave(self, partition: int) -> None:
        """Remove this partition completely."""
        self.stop(partition)
        with self._lock:
            self._outstanding.pop(partition, None)

    def is_drained(self, partition: int) -> bool:
        """Whether all deliveries of a partition are settled or have failed."""
        with self._lock:
            outstanding = self._outstanding.get(partition)
            return outstanding is None or not outstanding.in_flight()

    # --- one at a time ---

    def put(self, record: Record | FailedRecord | None) -> None:
        """Set the found record; None after a wait without one."""
        self._is_due_again = False
        self._current = record
        if record is None:
            with self._preparing:
                self._passed_over.follow(self._subscription.assignment)

    def take(self) -> Delivery | None:
        """Return the delivery that was made, if there is one."""
        if self._made:
            return self._made.popleft()
        made = self._current
        if not isinstance(made, Delivery):
            return None
        self._current = None
        return made

    def find(self) -> bool:
        """Return whether a record was found; looks first at those that are due again."""
        if self._waiting.paused:
            self._resume_reading()
        if self._current is not None and self._waiting.first() is not None:
            with self._preparing:
                self._defer_current()
        if self._current is None:
            self._find_due()
        if self._current is None and (self._gathered or self._taken):
            with self._preparing:
                self._is_due_again = False
                self._return_gathered()
                if self._taken:
                    self._current = self._taken.popleft()
        if self._current is None:
            self._counting.check_room()
        elif isinstance(self._current, Record):
            self._check_room(self._current)
        return self._current is not None

    async def find_on_loop(self, calls: CallsInTurn) -> bool:
        """Do the same on the running event loop."""
        # Invariant: a due record is removed from its queue only once it is set as found.
        has_more = self._gathered or self._taken or self._waiting.paused
        if self._waiting.first() is None and not has_more:
            return self.find()
        return await calls.make(self._find_in_turn)

    def prepare(self) -> None:
        """Make a delivery of the found record, or dead-letter it. May have to wait."""
        with self._preparing:
            found = self._current
            if found is None or isinstance(found, Delivery):
                # A step that was cancelled has done this already.
                return
            record = _record(found)
            outstanding = self._outstanding.get(record.partition)
            if outstanding is None or not self._is_read_as_before(record):
                self._current = None
                return
            if isinstance(found, Record) and self._waiting.is_early(found):
                self._postpone(outstanding, record)
                self._current = None
                return
            self._passed_over.note(record.partition, record.offset)
            if isinstance(found, Record) and self._waiting.is_blocked(outstanding, found):
                self._current = None
                return
            with self._lock:
                attempts = outstanding.attempts(record.offset)
            allowed = self._deliveries_max
            reason = str(found.error) if isinstance(found, FailedRecord) else NEVER_HANDLED
            if allowed is not None and (
                isinstance(found, FailedRecord) or attempts.is_too_often(allowed)
            ):
                self._dead_letter(outstanding, record, attempts.count, reason)
                self._current = None
                return
            if allowed is not None:
                self._counting.check_alone(record, allowed)
            if allowed is not None or not attempts.is_suspect:
                self._counting.count(record)
            self._waiting.pause_if_full(outstanding, record.partition)
            self._current = self._deliver(outstanding, record)

    def wait_s(self, deadline: float | None) -> float:
        """Return how long to wait: until a record is due, the next look, or the deadline."""
        now = self._clock.monotonic()
        end = now + POLL_S if deadline is None else min(now + POLL_S, deadline)
        return self._waiting.wait_s(max(0.0, end - now))

    def _is_read_as_before(self, record: Record) -> bool:
        """Whether its partition was neither removed nor added since the record was read."""
        # A partition that was added again since has not reached this record.
        position = self._waiting.position(record.partition)
        return position is not None and record.offset < position

    def _resume_reading(self) -> None:
        with self._preparing:
            self._waiting.resume_reading()

    def _postpone(self, outstanding: Outstanding, record: Record) -> None:
        self._passed_over.note(record.partition, record.offset)
        self._waiting.postpone(outstanding, record)

    def _find_in_turn(self) -> bool:
        self._find_due_in_turn()
        return self.find()

    def _defer_current(self) -> None:
        """Deliver a record that was read after those that are due again."""
        # Otherwise, in a partition that was entered during the wait for this record, it would
        # overtake the records between the gaps.
        read = self._current
        if isinstance(read, Record | FailedRecord) and not self._is_due_again:
            self._taken.appendleft(read)
            self._current = None

    def _find_due_in_turn(self) -> None:
        with self._preparing:
            if self._waiting.first() is not None:
                self._defer_current()
            if self._current is None:
                self._find_due()

    def _find_due(self) -> None:
        due = self._waiting.first()
        if due is None:
            return
        _, partition, offset = due
        found = next(self._log.read(self._topic, partition, offset, offset + 1), None)
        if not self._waiting.end(due):
            return
        self._is_due_again = True
        self._current = found
        if found is None:
            # In a topic with gaps, the record may be gone.
            self._passed_over.note_gone(partition, offset)

    def _check_room(self, record: Record) -> None:
        with self._lock:
            outstanding = self._outstanding.get(record.partition)
            if outstanding is not None and not outstanding.is_outstanding(record.offset):
                outstanding.check_room(record.partition)

    def _deliver(self, outstanding: Outstanding, record: Record) -> Delivery | None:
        with self._lock:
            if outstanding.is_settled(record.offset):
                # Another thread acked it while it was about to be delivered again.
                return None
            count = outstanding.deliver(record.offset)
            return Delivery(record, count, outstanding.generation)

    # --- many at once ---

    def take_many(self) -> list[Delivery]:
        """Return the deliveries that were made."""
        if not self._made:
            made = self.take()
            return [] if made is None else [made]
        found = [*self._made]
        self._made.clear()
        return found

    def gather(self, limits: FetchLimits) -> bool:
        """Make deliveries of records that are available at once, all for the first time.

        False if there is none, and if a record is due again or must be alone: that one is
        delivered singly. May have to wait for the log.
        """
        if self._waiting.blocks_keys or self._counting.is_one_isolated:
            return False
        with self._preparing:
            # Under the lock: a partition that is entered has records that are due first.
            if self._waiting.first() is not None:
                return False
            self._collect(limits)
            by_partition: dict[int, list[int]] = {}
            for record in self._gathered:
                by_partition.setdefault(record.partition, []).append(record.offset)
            if by_partition:
                self._counting.count_many(by_partition)
            for partition in by_partition:
                if partition in self._outstanding:
                    self._waiting.pause_if_full(self._outstanding[partition], partition)
            self._made.extend(self._deliver_many(by_partition))
            self._gathered.clear()
            return bool(self._made)

    def _collect(self, limits: FetchLimits) -> None:
        """Gather records up to the limits; a record that stops this early is delivered singly."""
        gathered, taken = self._gathered, self._taken
        self._return_gathered()
        if self._current is not None and not isinstance(self._current, Delivery):
            taken.appendleft(self._current)
            self._current = None
        room = {number: each.room for number, each in self._outstanding.items()}
        size = 0
        while len(gathered) < limits.records:
            record = taken[0] if taken else self._first_taken(limits.records - len(gathered))
            if not isinstance(record, Record):
                # There is none, or one that has failed.
                return
            outstanding = self._outstanding.get(record.partition)
            if outstanding is not None and not self._waiting.is_early(record):
                if limits.bytes is not None:
                    size += size_of(record)
                    if gathered and size > limits.bytes:
                        return
                if not outstanding.is_first(record.offset) or room.get(record.partition, 0) <= 0:
                    return
                room[record.partition] -= 1
                gathered.append(record)
            elif not self._is_passed(record):
                return
            taken.popleft()

    def _return_gathered(self) -> None:
        """Take back records that a call has gathered, and has not delivered because it failed."""
        while self._gathered:
            self._taken.appendleft(self._gathered.pop())

    def _first_taken(self, most: int) -> Record | FailedRecord | None:
        self._taken.extend(self._take_nowait(most))
        return self._taken[0] if self._taken else None

    def _is_passed(self, record: Record) -> bool:
        """Postpone a record that is not due, or drop one whose partition was removed.

        False if gathered records must be delivered first.
        """
        outstanding = self._outstanding.get(record.partition)
        if outstanding is None:
            return True
        if self._gathered and self._passed_over.is_screened:
            # Passed-over offsets must be recorded in order.
            return False
        self._postpone(outstanding, record)
        return True

    def _deliver_many(self, by_partition: Mapping[int, Sequence[int]]) -> list[Delivery]:
        with self._lock:
            generations = {}
            for partition, offsets in by_partition.items():
                outstanding = self._outstanding.get(partition)
                if outstanding is not None:
                    for end in offsets if self._passed_over.is_screened else ():
                        self._passed_over.note_locked(outstanding, end)
                        outstanding.deliver(end)
                    outstanding.deliver_many(offsets)
                    generations[partition] = outstanding.generation
        return [
            Delivery(record, 1, generations[record.partition])
            for record in self._gathered
            if record.partition in generations
        ]


def _record(found: Record | FailedRecord) -> Record:
    return found.record if isinstance(found, FailedRecord) else found


def _keep(items: deque[ItemT], is_kept: Callable[[ItemT], bool]) -> None:
    kept = [each for each in items if is_kept(each)]
    items.clear()
    items.extend(kept)
