"""The order in which a trigger's records begin, and the records that have ended."""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Final, NamedTuple

from strandline.log.draft import size_of
from strandline.triggers.entry import ActiveDelivery
from strandline.triggers.gate import Gate
from strandline.triggers.lanes import KeyLanes
from strandline.triggers.settling import Finished
from strandline.values import Record

KEPT_MAX: Final = 256
"""The maximum number of records that keep their value while they wait for their lanes."""

TOGETHER: Final = 64
"""With this many ended records a batch is settled without waiting for more."""

KEPT_BYTES: Final = 4096
"""The maximum size of a record that keeps its value."""


class Failure(NamedTuple):
    """A record whose call has failed; it is still in its lanes."""

    entry: ActiveDelivery
    error: BaseException


Outcome = Finished | Failure | None
"""None for a record that is handed back."""


class Ended(NamedTuple):
    """What has changed since the loop's last call of `Turns.ended`."""

    failures: list[Failure]
    opens_gate: bool


class Turns:
    """The records of one trigger that are ready, running and ended. For any thread.

    A worker is a task of the event loop, or a thread for blocking functions. Any free worker
    takes the first ready record, so a slow function delays only its own worker and its own
    lanes. At most `concurrency` records run at a time. A suspect begins before all other
    records, and only the loop begins it.

    `on_change` is called, in any thread and under the lock, when the loop has to call `ended`
    or to take more records. It is not called again until the loop has called `ended`.
    """

    def __init__(
        self,
        gate: Gate,
        concurrency: int,
        *,
        may_begin: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._gate = gate
        self._lock = gate.lock
        self._concurrency = concurrency
        self._may_begin = may_begin
        self._on_change = on_change
        self._lanes: KeyLanes[ActiveDelivery] = KeyLanes()
        self._ready: deque[ActiveDelivery] = deque()
        self._suspects: deque[ActiveDelivery] = deque()
        self.running: Final[set[ActiveDelivery]] = set()
        self._kept = 0
        """How many of the records that wait for their lanes have kept their value."""
        self.low: int = 0
        """More are taken if at most this many are ready; if it is 0, only if a place is free."""
        self.count: int = 0
        """How many calls have ended so far."""
        self._finished: list[Finished] = []
        self._failures: list[Failure] = []
        self._opens_gate = False
        self.is_in_doubt: bool = False
        """Whether no record may begin until it is known which process holds the first one."""
        self._is_loop_notified = False
        self._is_worker_woken = False

    # --- ready records ---

    @property
    def is_roomy(self) -> bool:
        """Whether so few records are ready that more should be taken."""
        ready = len(self._ready) + len(self._suspects)
        return ready <= self.low and (self.low > 0 or self.has_free_place)

    @property
    def has_free_place(self) -> bool:
        """Whether fewer than `concurrency` calls are running."""
        return len(self.running) < self._concurrency

    @property
    def must_run_alone(self) -> bool:
        """See gate.Member."""
        return bool(self._suspects) and self.has_free_place and self._may_begin()

    def enter(self, entry: ActiveDelivery, lanes: Sequence[Hashable]) -> None:
        """Add a record, which is ready once it is the first in all its lanes."""
        with self._lock:
            if not lanes or self._lanes.enter(entry, lanes):
                self._add(entry)
            elif entry.record is not None:
                self._keep(entry, entry.record)

    def add(self, entry: ActiveDelivery) -> None:
        """Add a record that is already the first in its lanes, so it is ready."""
        with self._lock:
            self._add(entry)

    def leave_lanes(self, entry: ActiveDelivery) -> None:
        """Remove a lost or ended record from its lanes: those behind it may begin."""
        with self._lock:
            self._leave_lanes(entry)

    # --- beginning ---

    def begin(self) -> ActiveDelivery | None:
        """Return the next record, and count it as running; None if none may begin."""
        with self._lock:
            if not self._ready or not self._may_begin_more():
                return None
            entry = self._ready.popleft()
            self._run(entry, alone=False)
            if len(self._ready) == self.low and self.is_roomy:
                self._notify_loop()
            return entry

    def begin_alone(self) -> ActiveDelivery | None:
        """Return the next suspect, and count it as running alone; None if none may begin."""
        with self._lock:
            is_next = self.must_run_alone and not self.is_in_doubt
            if not is_next or not self._gate.may_begin(alone=True):
                return None
            entry = self._suspects.popleft()
            self._gate.suspects -= 1
            self._run(entry, alone=True)
            return entry

    def put_back(self, entry: ActiveDelivery) -> None:
        """Make a running record the next one again: it is unknown which process holds it."""
        with self._lock:
            self.running.discard(entry)
            self._opens_gate |= self._gate.leave(entry)
            self._add(entry, is_next=True)
            self.is_in_doubt = True
            self._notify_loop()

    def wakes_worker(self) -> bool:
        """Whether to wake one more worker, which has to call `worker_is_here` first.

        Workers are woken one at a time, and each wakes the next one before its call begins:
        so records begin in order, and few workers are woken without a record to take.
        """
        # Without the lock: each change of these conditions is followed by another call.
        if not self._needs_worker():
            return False
        with self._lock:
            if not self._needs_worker() or not self._may_begin_more():
                return False
            self._is_worker_woken = True
            return True

    def worker_is_here(self) -> None:
        """Called by a woken worker before it takes a record: another one may be woken."""
        self._is_worker_woken = False

    # --- ending ---

    def end(self, entry: ActiveDelivery, outcome: Outcome) -> None:
        """Store the outcome of a running record; ignored if it was abandoned meanwhile."""
        with self._lock:
            if entry not in self.running:
                return
            self.running.discard(entry)
            self._opens_gate |= self._gate.leave(entry)
            self._note(entry, outcome)
            self._notify_loop()

    def note(self, entry: ActiveDelivery, outcome: Outcome) -> None:
        """Store the outcome of a record that still counts as running until it is settled."""
        with self._lock:
            self._note(entry, outcome)
            self._notify_loop()

    def pass_over(self, finished: Finished) -> None:
        """Add an outcome to be settled, of a record that is not running."""
        with self._lock:
            self._finished.append(finished)

    def ended(self) -> Ended:
        """Return what has changed since the last call."""
        with self._lock:
            ended = Ended(self._failures, self._opens_gate)
            self._failures, self._opens_gate = [], False
            self._is_loop_notified = False
            return ended

    @property
    def is_over(self) -> bool:
        """Whether no record is running, and all outcomes were taken."""
        return not (self.running or self._finished or self._failures)

    @property
    def is_settled_later(self) -> bool:
        """Whether to wait for more outcomes before the next batch is settled."""
        with self._lock:
            few = self._finished if len(self._finished) < TOGETHER else ()
            # A suspect runs until it is settled.
            return bool(few and self.running and few[-1].settled is None)

    def take_finished(self) -> list[Finished]:
        """Return the outcomes to be settled, and clear them."""
        with self._lock:
            finished, self._finished = self._finished, []
            return finished

    def abandon(self, cancelled: Collection[ActiveDelivery | None]) -> list[ActiveDelivery]:
        """Return the running records. Outcomes of those not in `cancelled` are ignored later."""
        with self._lock:
            left = [*self.running]
            for entry in left:
                if entry not in cancelled:
                    self.running.discard(entry)
                    self._opens_gate |= self._gate.leave(entry)
            return left

    # --- under the lock ---

    def _add(self, entry: ActiveDelivery, *, is_next: bool = False) -> None:
        self._gate.suspects += entry.is_suspect
        queue = self._suspects if entry.is_suspect else self._ready
        if is_next:
            queue.appendleft(entry)
        else:
            queue.append(entry)

    def _needs_worker(self) -> bool:
        return bool(self._ready) and self.has_free_place and not self._is_worker_woken

    def _may_begin_more(self) -> bool:
        is_free = not self._suspects and self.has_free_place and not self.is_in_doubt
        return is_free and self._may_begin() and self._gate.may_begin(alone=False)

    def _run(self, entry: ActiveDelivery, *, alone: bool) -> None:
        self.running.add(entry)
        self._gate.enter(entry, alone=alone)

    def _note(self, entry: ActiveDelivery, outcome: Outcome) -> None:
        self.count += 1
        if isinstance(outcome, Failure):
            self._failures.append(outcome)
        elif outcome is not None:
            self._finished.append(outcome)
            self._leave_lanes(entry)

    def _notify_loop(self) -> None:
        if not self._is_loop_notified:
            self._is_loop_notified = True
            self._on_change()

    def _leave_lanes(self, entry: ActiveDelivery) -> None:
        for each in self._lanes.leave(entry):
            if each.record is not None:
                self._kept -= 1
            self._add(each)

    def _keep(self, entry: ActiveDelivery, record: Record) -> None:
        """Keep the value of a waiting record, or drop it, to be read again later."""
        if self._kept < KEPT_MAX and size_of(record) <= KEPT_BYTES:
            self._kept += 1
        else:
            entry.record = None
