"""Whose turn it is: which of a trigger's records begin, and which have ended."""

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
"""How many records that wait for their lanes keep their value at most."""

TOGETHER: Final = 64
"""How many records that have ended are settled at once."""

KEPT_BYTES: Final = 4096
"""How large each of those may be."""


class Failure(NamedTuple):
    """A record whose call has failed, in the lanes still."""

    entry: ActiveDelivery
    error: BaseException


Outcome = Finished | Failure | None
"""None is of a record that is handed back."""


class Ended(NamedTuple):
    """What the loop has to do since it looked last."""

    failures: list[Failure]
    opens_gate: bool


class Turns:
    """The records of one trigger that are ready, running and ended. For any thread.

    A worker is a task of the event loop, or a thread for functions that block. Whichever is free
    takes the first record that is ready. So a slow function holds up its own place and its own
    lanes, and nothing else. At most `concurrency` run at a time. A suspect goes before all
    others, and is left to the loop.

    `on_change` is called, in any thread and under the lock, when there is something for the
    loop to do: to look at `ended`, or to take more. Once until it has looked.
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
        """How many of those that wait for their lanes have their value."""
        self.low: int = 0
        """With how many that are ready more are taken; with 0, only if a place is free as well."""
        self.count: int = 0
        """How many have ended so far."""
        self._finished: list[Finished] = []
        self._failures: list[Failure] = []
        self._opens_gate = False
        self.is_in_doubt: bool = False
        """Whether nothing begins until it is known which process holds the first record."""
        self._is_loop_called = False
        self._is_worker_called = False

    # --- what is ready ---

    @property
    def is_roomy(self) -> bool:
        """Whether so few records are ready that more are to be taken."""
        ready = len(self._ready) + len(self._suspects)
        return ready <= self.low and (self.low > 0 or self.has_free_place)

    @property
    def has_free_place(self) -> bool:
        """Whether one more call may run beside the others."""
        return len(self.running) < self._concurrency

    @property
    def must_run_alone(self) -> bool:
        """See gate.Member."""
        return bool(self._suspects) and self.has_free_place and self._may_begin()

    def enter(self, entry: ActiveDelivery, lanes: Sequence[Hashable]) -> None:
        """Have a record begin as soon as it is the first in all its lanes."""
        with self._lock:
            if not lanes or self._lanes.enter(entry, lanes):
                self._add(entry)
            elif entry.record is not None:
                self._keep(entry, entry.record)

    def add(self, entry: ActiveDelivery) -> None:
        """Have a record begin that is the first of its lanes already."""
        with self._lock:
            self._add(entry)

    def leave_lanes(self, entry: ActiveDelivery) -> None:
        """The record is another process's, or settled: those behind it may begin."""
        with self._lock:
            self._leave_lanes(entry)

    # --- beginning ---

    def begin(self) -> ActiveDelivery | None:
        """Return the next record, which runs from now on; None while none may."""
        with self._lock:
            if not self._ready or not self._may_begin_more():
                return None
            entry = self._ready.popleft()
            self._run(entry, alone=False)
            if len(self._ready) == self.low and self.is_roomy:
                self._call_loop()
            return entry

    def begin_alone(self) -> ActiveDelivery | None:
        """Return the next suspect, which runs from now on, and nothing beside it."""
        with self._lock:
            is_next = self.must_run_alone and not self.is_in_doubt
            if not is_next or not self._gate.may_begin(alone=True):
                return None
            entry = self._suspects.popleft()
            self._gate.suspects -= 1
            self._run(entry, alone=True)
            return entry

    def put_back(self, entry: ActiveDelivery) -> None:
        """It is not known which process holds the record: it is the next one, later."""
        with self._lock:
            self.running.discard(entry)
            self._opens_gate |= self._gate.leave(entry)
            self._add(entry, is_next=True)
            self.is_in_doubt = True
            self._call_loop()

    def calls_worker(self) -> bool:
        """Whether one more worker has to be called, which then says `worker_came`.

        One at a time, which calls the next before it begins: so records begin in their order,
        and no more are called than find something to do.
        """
        # What changes that asks again.
        if not self._needs_worker():
            return False
        with self._lock:
            if not self._needs_worker() or not self._may_begin_more():
                return False
            self._is_worker_called = True
            return True

    def worker_came(self) -> None:
        """The worker that was called is about to look for a record."""
        self._is_worker_called = False

    # --- ending ---

    def end(self, entry: ActiveDelivery, outcome: Outcome) -> None:
        """The record runs no more. What was abandoned meanwhile has no outcome."""
        with self._lock:
            if entry not in self.running:
                return
            self.running.discard(entry)
            self._opens_gate |= self._gate.leave(entry)
            self._note(entry, outcome)
            self._call_loop()

    def note(self, entry: ActiveDelivery, outcome: Outcome) -> None:
        """Do the same with a record that counts as running until it is settled."""
        with self._lock:
            self._note(entry, outcome)
            self._call_loop()

    def pass_over(self, finished: Finished) -> None:
        """A record is settled that never ran, and is in no lane."""
        with self._lock:
            self._finished.append(finished)

    def ended(self) -> Ended:
        """Return what the loop has to do since the last time."""
        with self._lock:
            ended = Ended(self._failures, self._opens_gate)
            self._failures, self._opens_gate = [], False
            self._is_loop_called = False
            return ended

    @property
    def is_over(self) -> bool:
        """Whether nothing runs, and nothing has ended that is not settled."""
        return not (self.running or self._finished or self._failures)

    @property
    def is_settled_later(self) -> bool:
        """Whether more will end in a moment, which can be settled together with what has."""
        with self._lock:
            few = self._finished if len(self._finished) < TOGETHER else ()
            # A suspect runs until it is settled.
            return bool(few and self.running and few[-1].settled is None)

    def take_finished(self) -> list[Finished]:
        """Return what is to be settled since the last time."""
        with self._lock:
            finished, self._finished = self._finished, []
            return finished

    def abandon(self, cancelled: Collection[ActiveDelivery | None]) -> list[ActiveDelivery]:
        """Return what runs. What is not cancelled has no outcome, whatever becomes of it."""
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
        return bool(self._ready) and self.has_free_place and not self._is_worker_called

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

    def _call_loop(self) -> None:
        if not self._is_loop_called:
            self._is_loop_called = True
            self._on_change()

    def _leave_lanes(self, entry: ActiveDelivery) -> None:
        for each in self._lanes.leave(entry):
            if each.record is not None:
                self._kept -= 1
            self._add(each)

    def _keep(self, entry: ActiveDelivery, record: Record) -> None:
        """Have a record wait with its value, or without: it is read again then."""
        if self._kept < KEPT_MAX and size_of(record) <= KEPT_BYTES:
            self._kept += 1
        else:
            entry.record = None
