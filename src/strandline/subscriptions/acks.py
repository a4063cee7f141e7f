"""A consumer's acks: in memory at once, in the log immediately or a little later."""

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from strandline.clock import Clock, Timer
from strandline.log import Log
from strandline.log.cursor_moves import CursorMove, ack_each
from strandline.log.gaps import Gaps
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.outstanding import Outstanding
from strandline.values import (
    ClosedError,
    LeaseLostError,
    Offset,
    Partition,
    StrandlineError,
    UnavailableError,
)

OnSettled = Callable[[int, Collection[int]], None]

_logger = logging.getLogger("strandline")


class _Wanted(NamedTuple):
    """What to store for a partition."""

    outstanding: Outstanding
    floor: Offset
    gaps: Gaps | None


class Acks:
    """Settles records and stores cursors. Thread-safe.

    Without `commit_every` and `commit_every_s`, the cursor is stored before an ack returns.
    With one of them, an ack counts in memory, and cursors are stored together: after that many
    acked records, or that long after the first of them. If the process ends or loses a
    partition, records that were acked and not stored are delivered again.
    """

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        counting: Counting,
        clock: Clock,
        *,
        commit_every: int | None,
        commit_every_s: float | None,
        on_lost: Callable[[], None],
    ) -> None:
        self._log = log
        self._topic, self._name, self._tenant = whose
        self._counting = counting
        self._clock = clock
        self._commit_every = commit_every
        self._commit_every_s = commit_every_s
        self._on_lost = on_lost
        #: Held by one ack while it is stored: two concurrent acks would each store a cursor
        #: without the other's records.
        self.storing: Final = threading.RLock()
        self._pending = 0
        self._timer: Timer | None = None
        self._on_settled: weakref.WeakMethod[OnSettled] | None = None

    @property
    def is_deferred(self) -> bool:
        """Whether cursors may be stored after their acks return."""
        return self._commit_every is not None or self._commit_every_s is not None

    def on_settled(self, method: OnSettled) -> None:
        """Register a method to be called with a partition and the offsets settled in it."""
        # Weakly: a consumer without references must be closed at once.
        self._on_settled = weakref.WeakMethod(method)

    def _notify(self, partition: int, offsets: Collection[int]) -> None:
        on_settled = None if self._on_settled is None else self._on_settled()
        if on_settled is not None:
            on_settled(partition, offsets)

    def settle(self, partition: int, outstanding: Outstanding, offsets: Collection[int]) -> Offset:
        """Settle these records. Returns the cursor; if it raises, nothing changes."""
        number = Partition(partition)
        return self.settle_each({number: (outstanding, offsets)})[number]

    def settle_each(
        self, handled: Mapping[Partition, tuple[Outstanding, Collection[int]]]
    ) -> Mapping[Partition, Offset]:
        """Settle records of several partitions: all of them, or none if it raises."""
        with self.storing:
            wanted: dict[int, _Wanted] = {}
            was_alone: dict[int, list[int]] = {}
            with self._counting.lock:
                for partition, (outstanding, offsets) in handled.items():
                    was_alone[partition] = [n for n in offsets if outstanding.is_alone(n)]
                    floor = outstanding.floor_after(offsets)
                    gaps = outstanding.gaps_after(offsets)
                    wanted[partition] = _Wanted(outstanding, floor, gaps)
            if not self.is_deferred:
                self._store(wanted)
            with self._counting.lock:
                for outstanding, offsets in handled.values():
                    outstanding.settle(offsets)
                floors = {n: outstanding.floor for n, (outstanding, _) in handled.items()}
            for partition, (_, offsets) in handled.items():
                self._notify(partition, offsets)
                if any(each >= floors[partition] for each in was_alone[partition]):
                    # It is delivered again after a crash, which must not count as its own fault.
                    self._counting.note(partition)
            if self.is_deferred and handled:
                is_full = any(
                    each.gaps is not None and not each.outstanding.room for each in wanted.values()
                )
                count = sum(len(offsets) for _, offsets in handled.values())
                self._defer(count, is_full=is_full)
            return floors

    def delay(self, partition: int, outstanding: Outstanding, offset: int, due_us: int) -> None:
        """Store the time at which a record is delivered again; it outlives this process."""
        with self.storing:
            with self._counting.lock:
                floor = outstanding.floor
                gaps = outstanding.gaps_with(offset, due_us)
            self._store({partition: _Wanted(outstanding, floor, gaps)})

    def commit(self) -> Mapping[Partition, Offset]:
        """Store what was acked so far; return the stored cursors."""
        with self.storing:
            self._pending = 0
            self._cancel()
            moved = self._partitions()
            self.commit_together(moved)
            return {Partition(n): self.commit_partition(n) for n in moved}

    def commit_partition(self, partition: int) -> Offset:
        """Store what was acked in one partition."""
        with self.storing:
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is None:
                raise LeaseLostError(partition, topic=self._topic.name, consumer=self._name)
            self._store(self._settled([partition]))
            return outstanding.stored

    def commit_together(self, partitions: Collection[int]) -> None:
        """Store what was acked in several partitions, in one write.

        If one of them is refused, none is stored, and `commit_partition` must store the others.
        """
        if len(partitions) <= 1:
            return
        try:
            with self.storing:
                self._store(self._settled(partitions))
        except UnavailableError:
            raise
        except StrandlineError as error:
            _logger.debug("consumer %s stores its acks one by one: %s", self._name, error)

    def check_held(self, generations: Mapping[int, int]) -> None:
        """Raise LeaseLostError if another member holds one of the partitions. Asks the log."""
        # An ack of no record: it moves no cursor, but is refused like any other.
        self._ack({n: CursorMove(0, generation) for n, generation in generations.items()})

    def close(self) -> None:
        """Store what was acked, if the log accepts it."""
        self._cancel()
        moved = self._partitions()
        with contextlib.suppress(StrandlineError):
            self.commit_together(moved)
        for partition in moved:
            try:
                self.commit_partition(partition)
            except StrandlineError as error:
                _logger.debug("consumer %s leaves acks unstored: %s", self._name, error)

    def _settled(self, partitions: Iterable[int]) -> Mapping[int, _Wanted]:
        with self._counting.lock:
            return {
                number: _Wanted(each, each.floor, each.gaps_after(()))
                for number in partitions
                if (each := self._counting.outstanding.get(number)) is not None
            }

    def _store(self, wanted: Mapping[int, _Wanted]) -> None:
        moves = {}
        for partition, (outstanding, floor, gaps) in wanted.items():
            new = None if gaps == outstanding.stored_gaps else gaps
            if floor > outstanding.stored or new is not None:
                moves[partition] = CursorMove(floor, outstanding.generation or None, new)
        for partition, cursor in self._ack(moves).items():
            outstanding, gaps = wanted[partition].outstanding, moves[partition].gaps
            outstanding.stored = cursor
            if gaps is not None:
                with self._counting.lock:
                    outstanding.keep(gaps)

    def _ack(self, moves: Mapping[int, CursorMove]) -> Mapping[Partition, Offset]:
        if not moves:
            return {}
        try:
            if len(moves) == 1:
                # Call the public method, which a subclass of Log may override.
                ((partition, move),) = moves.items()
                if move.gaps is None:
                    return {Partition(partition): self._ack_one(partition, move)}
            return ack_each(self._log, self._topic, self._name, moves, tenant=self._tenant)
        except LeaseLostError:
            self._on_lost()
            raise

    def _ack_one(self, partition: int, move: CursorMove) -> Offset:
        return self._log.ack(
            *(self._topic, self._name, partition, move.end),
            tenant=self._tenant,
            generation=move.generation,
        )

    def _defer(self, count: int, *, is_full: bool) -> None:
        self._pending += count
        is_due = self._commit_every is not None and self._pending >= self._commit_every
        if is_due or is_full:
            self.commit()
        elif self._commit_every_s is not None and self._timer is None:
            action = _late_commit(weakref.WeakMethod(self._commit_late))
            self._timer = self._clock.call_later(self._commit_every_s, action)

    def _commit_late(self) -> None:
        try:
            self.commit()
        except ClosedError:
            return
        except StrandlineError as error:
            # The next ack, or closing, stores it.
            _logger.warning("consumer %s could not store its acks: %s", self._name, error)
            self._timer = None

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _partitions(self) -> Collection[int]:
        with self._counting.lock:
            return [
                number
                for number, each in self._counting.outstanding.items()
                if each.floor > each.stored or each.gaps_after(()) not in (None, each.stored_gaps)
            ]


def _late_commit(commit: "weakref.WeakMethod[Callable[[], None]]") -> Callable[[], None]:
    # Weakly: the timer must not keep a consumer without references alive.
    def run() -> None:
        if (found := commit()) is not None:
            found()

    return run
