"""One partition of a view: its state, its progress, and whether it can be read."""

import asyncio
import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Generic

from strandline.clock import Clock
from strandline.log import Log
from strandline.log.parts import check_dense
from strandline.subscriptions.screening import Outcome, Screen, screen_for
from strandline.values import (
    InvalidError,
    NotReadyError,
    Position,
    Record,
    StrandlineError,
    Topic,
    UnavailableError,
)
from strandline.values.names import check_text
from strandline.views.errors import RefusedError, check_no_interrupt
from strandline.views.health import PartitionHealth, Readiness
from strandline.views.outcomes import Outcomes
from strandline.views.view import StateT, View
from strandline.writes.waiter import LoopWaiter, ThreadWaiter
from strandline.writes.watermark import Watermark


class PoisonError(Exception):
    """`apply` failed at `offset`. Internal to this package."""

    def __init__(self, offset: int, cause: BaseException) -> None:
        super().__init__(offset)
        self.offset = offset
        self.cause = cause


class Fold(Generic[StateT]):
    """One assignment of one partition.

    Only the pump's thread changes the state, `mark` and the quarantined offsets. Invariant:
    under the lock, the state is the result of the records before `mark.value`, without
    quarantined and refused ones; queries are answered only after that reaches `target`.
    """

    def __init__(
        self, view: View[StateT], partition: int, clock: Clock, screen: Screen | None
    ) -> None:
        self.partition = partition
        self.mark: Final = Watermark()
        """`mark.value` is the next offset to apply."""
        self.first: int = 0
        self.end: int = 0
        self.outcomes: Final = Outcomes()
        self.quarantined: dict[int, str] = {}
        self.fault: StrandlineError | None = None
        """Why the partition cannot be read at the moment."""
        self.ending: StrandlineError | None = None
        """Why it has stopped."""
        self.position: Position | None = None
        """The position when it was last loaded or saved."""
        self.origin: int | None = None
        """The offset from which it must start over, ignoring the snapshot."""
        self.is_released: bool = False
        self.is_loaded: bool = False
        self._view = view
        self._screen = screen
        self._clock = clock
        self._target: int | None = None
        self._is_ready = False
        self._is_answering = True
        self._state: Any = None
        # A query may read the same partition again.
        self._turnstile = threading.RLock()
        self._lock = threading.RLock()
        self._is_requested = False

    # --- the pump's side ---

    def load(self, state: StateT, first: int, following: int, refused: Mapping[int, str]) -> None:
        """Start with this state, made of the records from `first` on and before `following`."""
        with self._lock:
            self._state = state
            self.first = first
            self.outcomes.refused = dict(refused)
            self.mark.value = following
            self.end = max(self.end, following)
            self.is_loaded = True
        self._settle()
        self.mark.wake_reached()

    def unload(self) -> None:
        """Drop the state, and be not ready until the same records are applied again."""
        with self._lock:
            self._is_ready = False
            self.is_loaded = False
            self._state = None
            if self._target is not None:
                self._target = max(self._target, self.mark.value)

    def apply_page(self, page: Sequence[Record]) -> None:
        """Apply records that begin at `mark.value`; PoisonError at the first that fails."""
        wanted = page if self._screen is None else tuple(self._screen.sift(page))
        at = 0
        while at < len(page) and not self.is_released:
            # A waiting reader holds the turnstile, and goes first.
            with self._turnstile:
                pass
            with self._lock:
                at = self._apply_slice(page, wanted, at)
            self._settle()
        self.mark.wake_reached()

    def _apply_slice(self, page: Sequence[Record], wanted: Sequence[Outcome], at: int) -> int:
        """Apply from `at` on until the page ends or a query waits; return the next index."""
        mark, apply, outcomes, state = self.mark, self._view.apply, self.outcomes, self._state
        for read, record in zip(islice(page, at, None), islice(wanted, at, None), strict=True):
            offset = read.offset
            assert offset == mark.value, f"a log gave {offset} where {mark.value} was read"
            if record is not None and (not self.quarantined or offset not in self.quarantined):
                try:
                    if isinstance(record, InvalidError):
                        raise record
                    result = apply(state, record)
                except RefusedError as refusal:
                    outcomes.refuse(offset, str(refusal))
                    outcomes.note(offset, refusal)
                except BaseException as cause:
                    check_no_interrupt(cause)
                    raise PoisonError(offset, cause) from cause
                else:
                    if outcomes.floors:
                        outcomes.note(offset, result)
            mark.value = offset + 1
            at += 1
            if self._is_requested:
                break
        return at

    def encoded(self) -> bytes:
        """Return the encoded state. Needs no lock: no other thread changes it."""
        encoded = self._view.encode(self._state)
        if isinstance(encoded, bytes):
            return encoded
        raise InvalidError(
            "encode must return bytes, encode the text or copy the buffer with bytes(…)",
            view=self._view.name,
            type=type(encoded).__name__,
        )

    # --- the assigner's side ---

    @property
    def target(self) -> int | None:
        """The offset up to which it must apply to be ready; None while unknown."""
        return self._target

    def set_target(self, target: int) -> None:
        """Become ready once everything before `target` is applied."""
        self._target = target
        self.end = max(self.end, target)
        self._settle()

    def clear_target(self) -> None:
        """Become not ready until there is a new target."""
        with self._lock:
            self._target = None
            self._is_ready = False

    def release(self) -> None:
        """Mark the fold as no longer assigned, or replaced by another one."""
        self.is_released = True
        self.mark.wake_all()

    def stop(self, ending: StrandlineError, *, answering: bool = False) -> None:
        """Stop applying; unless `answering`, stop answering, too."""
        with self._lock:
            self.ending = ending
            self._is_answering = answering
            if not answering:
                self._is_ready = False
                self._state = None
        self.mark.wake_all()

    # --- the readers' side ---

    @property
    def is_ready(self) -> bool:
        """Whether it answers."""
        return self._is_ready

    @property
    def is_queried_here(self) -> bool:
        """Whether this thread is inside a query."""
        try:
            # A condition can be notified only by the thread that holds its lock.
            threading.Condition(self._turnstile).notify()
        except RuntimeError:
            return False
        return True

    def read(self, query: Callable[[StateT], Any], min_offset: int | None) -> Any:
        """Return the result of the query on the state; NotReadyError, or why it has stopped."""
        if not self._is_ready:
            raise self._not_ready(min_offset)
        with self._turnstile:
            self._is_requested = True
            with self._lock:
                self._is_requested = False
                behind = min_offset is not None and self.mark.value <= min_offset
                if behind or not self._is_ready:
                    raise self._not_ready(min_offset)
                return query(self._state)

    def health(self, committed: int) -> PartitionHealth:
        """Return its health."""
        readiness = Readiness.READY if self._is_ready else Readiness.NOT_READY
        if not self._is_answering:
            readiness = Readiness.STOPPED
        return PartitionHealth(
            readiness=readiness,
            first=self.first,
            applied=self.mark.value - 1,
            committed=committed,
            target=self._target,
            end=max(self.end, self.mark.value),
            quarantined=dict(self.quarantined),
            fault=self.ending or self.fault,
        )

    def wait(self, met: Callable[[], bool], following: int, deadline: float | None) -> bool:
        """Return True once `met`; False at the deadline; raise if it never can be.

        It cannot be met before the mark reaches `following`.
        """
        waiter = ThreadWaiter(self._clock)
        with self.mark.awaited_by(waiter, following):
            while not met():
                self.check_going()
                if not waiter.wait(deadline):
                    return met()
        return True

    async def wait_on_loop(
        self, met: Callable[[], bool], following: int, timeout_s: float | None
    ) -> bool:
        """Like `wait`, on the running event loop."""
        waiter = LoopWaiter()
        with self.mark.awaited_by(waiter, following):
            try:
                async with asyncio.timeout(timeout_s):
                    while not met():
                        self.check_going()
                        await waiter.wait()
            except TimeoutError:
                return met()
        return True

    def check_going(self) -> None:
        """Raise if it has stopped or was released."""
        if self.ending is not None:
            raise copy.copy(self.ending)
        if self.is_released:
            raise UnavailableError("this view has given the partition up", partition=self.partition)

    def _settle(self) -> None:
        if self._is_ready or not self._has_caught_up():
            return
        with self._lock:
            self._is_ready = self._has_caught_up()
        self.mark.wake_all()

    def _has_caught_up(self) -> bool:
        target = self._target
        is_whole = self.is_loaded and self.ending is None
        return is_whole and target is not None and self.mark.value >= target

    def _not_ready(self, min_offset: int | None) -> StrandlineError:
        if not self._is_answering and self.ending is not None:
            return copy.copy(self.ending)
        fields = {} if min_offset is None else {"min_offset": min_offset}
        return NotReadyError(
            self.partition, applied=self.mark.value - 1, target=self._target, **fields
        )


def view_screen(log: Log, topic: Topic, view: View[Any]) -> Screen | None:
    """Return the screen for a view's predicate; None for all records. PredicateError if invalid."""
    check_dense(log, topic, "a view")
    where = check_text(view.where, "predicate")
    if not where.strip():
        return None
    found = log.describe_topic(topic)
    # Of all times that a predicate could use, this one is the same at every replay.
    return screen_for(where, found.settings, found.created_at_us)
