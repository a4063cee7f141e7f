"""A consumer's acks: in memory at once, in the log now or a little later."""

import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from strandline.clock import Clock, Timer
from strandline.log import Log
from strandline.log.gaps import Gaps, ack_with_gaps
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.outstanding import Outstanding
from strandline.values import (
    ClosedError,
    LeaseLostError,
    Offset,
    Partition,
    StrandlineError,
)

OnSettled = Callable[[int, Collection[int]], None]

_logger = logging.getLogger("strandline")


class Acks:
    """Settles records and stores cursors. Thread-safe.

    Without `commit_every` and `commit_every_s`, a cursor is stored before an ack returns.
    With one of them, an ack counts in memory, and cursors are stored together: after so many
    acked records, or so long after the first of them. What was acked and not stored when a
    process ends, or loses a partition, is delivered again.
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
        #: Held by one ack at a time, while it is stored: two at a time would each store a
        #: cursor that knows nothing of the other.
        self.storing: Final = threading.RLock()
        self._pending = 0
        self._timer: Timer | None = None
        self._on_settled: weakref.WeakMethod[OnSettled] | None = None

    @property
    def is_deferred(self) -> bool:
        """Whether cursors are stored later than their acks return."""
        return self._commit_every is not None or self._commit_every_s is not None

    def on_settled(self, method: OnSettled) -> None:
        """Have a method called with a partition and what was settled of it."""
        # Weakly: a consumer that is no longer referred to ends at once.
        self._on_settled = weakref.WeakMethod(method)

    def _notify(self, partition: int, offsets: Collection[int]) -> None:
        on_settled = None if self._on_settled is None else self._on_settled()
        if on_settled is not None:
            on_settled(partition, offsets)

    def settle(self, partition: int, outstanding: Outstanding, offsets: Collection[int]) -> Offset:
        """These are handled. Returns the cursor; what raises changes nothing."""
        with self.storing:
            with self._counting.lock:
                was_alone = [each for each in offsets if outstanding.is_alone(each)]
                floor = outstanding.floor_after(offsets)
                gaps = outstanding.gaps_after(offsets)
            if not self.is_deferred:
                self._store(partition, outstanding, floor, gaps)
            with self._counting.lock:
                outstanding.settle(offsets)
                floor = outstanding.floor
            self._notify(partition, offsets)
            if any(each >= floor for each in was_alone):
                # It comes again after a crash, which must not be taken for its own.
                self._counting.note(partition)
            if self.is_deferred:
                self._defer(len(offsets), is_full=gaps is not None and not outstanding.room)
            return floor

    def delay(self, partition: int, outstanding: Outstanding, offset: int, due_us: int) -> None:
        """Store that a record comes again at a time, which outlives this process."""
        with self.storing:
            with self._counting.lock:
                floor = outstanding.floor
                gaps = outstanding.gaps_with(offset, due_us)
            self._store(partition, outstanding, floor, gaps)

    def commit(self) -> Mapping[Partition, Offset]:
        """Store what was acked so far; return the cursors that are stored then."""
        with self.storing:
            self._pending = 0
            self._cancel()
            return {Partition(n): self.commit_partition(n) for n in self._partitions()}

    def commit_partition(self, partition: int) -> Offset:
        """Store what was acked of one partition."""
        with self.storing:
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is None:
                raise LeaseLostError(partition, topic=self._topic.name, consumer=self._name)
            with self._counting.lock:
                floor, gaps = outstanding.floor, outstanding.gaps_after(())
            self._store(partition, outstanding, floor, gaps)
            return outstanding.stored

    def check_held(self, partition: int, generation: int) -> None:
        """Raise LeaseLostError if another member holds the partition. Asks the log."""
        # An ack of nothing: it moves no cursor, and is refused as any other.
        self._ack(partition, generation, Offset(0))

    def close(self) -> None:
        """Store what was acked, as far as the log takes it."""
        self._cancel()
        for partition in self._partitions():
            try:
                self.commit_partition(partition)
            except StrandlineError as error:
                _logger.debug("consumer %s leaves acks unstored: %s", self._name, error)

    def _store(
        self, partition: int, outstanding: Outstanding, floor: Offset, gaps: Gaps | None
    ) -> None:
        if gaps == outstanding.stored_gaps:
            gaps = None
        if floor <= outstanding.stored and gaps is None:
            return
        outstanding.stored = self._ack(partition, outstanding.generation, floor, gaps)
        if gaps is not None:
            with self._counting.lock:
                outstanding.keep(gaps)

    def _ack(
        self, partition: int, generation: int, end: Offset, gaps: Gaps | None = None
    ) -> Offset:
        whose = self._topic, self._name, partition, end
        fence = generation or None
        try:
            if gaps is None:
                return self._log.ack(*whose, tenant=self._tenant, generation=fence)
            return ack_with_gaps(
                self._log, *whose, gaps=gaps, tenant=self._tenant, generation=fence
            )
        except LeaseLostError:
            self._on_lost()
            raise

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
            # The next ack, or the close, stores it.
            _logger.warning("consumer %s could not store its acks: %s", self._name, error)
            self._timer = None

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _partitions(self) -> Iterable[int]:
        with self._counting.lock:
            return [
                number
                for number, each in self._counting.outstanding.items()
                if each.floor > each.stored or each.gaps_after(()) not in (None, each.stored_gaps)
            ]


def _late_commit(commit: "weakref.WeakMethod[Callable[[], None]]") -> Callable[[], None]:
    # A consumer that is no longer referred to is not kept by its timer.
    def run() -> None:
        if (found := commit()) is not None:
            found()

    return run
