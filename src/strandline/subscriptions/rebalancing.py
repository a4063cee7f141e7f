"""Keeps a consumer's partitions in step with its group, in the background."""

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from strandline.clock import Clock, Timer
from strandline.groups import Assigned, AssignmentEvent, Membership, Revoked
from strandline.log import Log
from strandline.log.parts import counts_of
from strandline.log.stored_cursors import stored_cursors
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.deliveries import Deliveries
from strandline.subscriptions.start import resolve
from strandline.values import (
    CONSUMER_IDLE_S,
    EARLIEST,
    ClosedError,
    DroppedError,
    LeaseLostError,
    Offset,
    Partition,
    Start,
    StrandlineError,
    UnavailableError,
)

HEARTBEAT_S: Final = CONSUMER_IDLE_S / 7
"""How often an open consumer sends a heartbeat, even if it acks nothing."""

_BALANCED: Final = "gave it back, so that each member has its share"
_RELEASED: Final = "released it"
_NOT_ENTERED: Final = "it could not be read"

_logger = logging.getLogger("strandline")


class Rebalancing:
    """Takes, hands over and loses one consumer's partitions. Thread-safe."""

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        membership: Membership,
        *,
        deliveries: Deliveries,
        acks: Acks,
        counting: Counting,
        start: Start | datetime,
        clock: Clock,
        on_event: Callable[[AssignmentEvent], object] | None,
        on_chosen: Callable[[Collection[int]], None],
    ) -> None:
        self._log = log
        self._topic, self._name, self._tenant = whose
        self._membership = membership
        self._deliveries = deliveries
        self._acks = acks
        self._counting = counting
        self._start = start
        self._clock = clock
        self._on_event = on_event
        self._on_chosen = on_chosen
        #: The number of partitions at the start: added ones begin at their first record.
        self._first_count = 0
        #: Whether a manual member reads every partition, including ones added later.
        self._is_every = False
        self._counts = counts_of(log)
        self._lock = threading.RLock()
        self._revoking: dict[int, float] = {}
        """The deadline until which each partition may be drained."""
        self.entered: dict[int, int] = {}
        """The generation of each partition that is being read or drained."""
        self.left: set[int] = set()
        """Partitions that went to other members."""
        self._heartbeat_at = clock.monotonic() + HEARTBEAT_S
        self._failure: StrandlineError | None = None
        self._timer: Timer | None = None
        self._is_closed = False

    @property
    def is_valid(self) -> bool:
        """Whether the lease certainly holds, and nothing has failed since the last look."""
        return self._failure is None and self._membership.is_valid

    def begin(self, partitions: Collection[int] | None, count: int, *, is_every: bool) -> None:
        """Join the group, or take exactly these partitions. If it raises, it has left again.

        With `is_every`, partitions added beyond `count` are read, too.
        """
        with self._lock:
            self._first_count = count
            if partitions is None:
                self._step()
                self._register_rest(count)
            else:
                self._membership.look()
                self.assign(partitions)
                self._is_every = is_every
            self._schedule()

    def step(self) -> None:
        """Do the background step now; raises any error since the last call."""
        with self._lock:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            if not self._is_closed:
                self._step()

    def doubt(self) -> None:
        """Have the next step check which partitions are still held."""
        self._membership.doubt()

    def assign(self, wanted: Collection[int]) -> None:
        """Read exactly these partitions from now on, as a manual member. All or nothing."""
        with self._lock:
            if not self._membership.is_manual:
                self._membership.become_manual()
                self._membership.look()
            self._is_every = False
            added = sorted(set(wanted) - self.entered.keys())
            before = self._membership.chosen
            try:
                if added:
                    self._membership.choose(added)
                self._enter_held()
            except BaseException:
                self._membership.chosen = before
                self._give_back(added, _RELEASED)
                raise
            self._membership.chosen = frozenset(wanted)
            released = sorted(self.entered.keys() - set(wanted))
            self._finish(released)
            self._give_back(released, _RELEASED)

    def close(self) -> None:
        """Release all partitions, and leave the group."""
        with self._lock:
            self._is_closed = True
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            with contextlib.suppress(StrandlineError):
                self._membership.leave()

    # --- one step ---

    def _step(self) -> None:
        if self._is_every and self._membership.choose_every():
            self._on_chosen(self._membership.chosen)
        plan = self._membership.look()
        for partition, reason in plan.lost.items():
            self._lose(partition, reason)
        self._revoke(plan.surplus)
        self._hand_over()
        if plan.wanted:
            self._membership.take(plan.wanted)
        self._enter_held()
        self._send_heartbeat()

    def _lose(self, partition: int, reason: str) -> None:
        generation = self.entered.pop(partition, None)
        if generation is None:
            return
        self._revoking.pop(partition, None)
        self.left.add(partition)
        self._counts.partitions_lost += 1
        self._deliveries.leave(partition)
        _logger.warning(
            "consumer %s lost partition %d of %s: %s",
            *(self._name, partition, self._topic.name, reason),
        )
        self._notify(Revoked(Partition(partition), generation, reason, is_lost=True))

    def _revoke(self, surplus: Iterable[int]) -> None:
        for partition in surplus:
            if partition in self.entered and partition not in self._revoking:
                self._deliveries.stop(partition)
                self._counts.partitions_revoked += 1
                self._revoking[partition] = self._clock.monotonic() + self._membership.lease_s
                reason = "another member has fewer partitions"
                generation = self.entered[partition]
                self._notify(Revoked(Partition(partition), generation, reason, is_lost=False))

    def _hand_over(self) -> None:
        """Release partitions that are drained, or whose deadline has passed."""
        now = self._clock.monotonic()
        drained = [
            each
            for each, until in self._revoking.items()
            if now >= until or self._deliveries.is_drained(each)
        ]
        self._finish(drained)
        self._give_back(drained, _BALANCED)

    def _finish(self, partitions: Collection[int]) -> None:
        """Store the acks of these partitions, and stop reading them."""
        self._counting.end(partitions)
        self._acks.commit_together(partitions)
        for partition in partitions:
            with contextlib.suppress(LeaseLostError):
                self._acks.commit_partition(partition)
            self._counting.release_partition(partition)
            self._deliveries.leave(partition)
            self.entered.pop(partition, None)
            self._revoking.pop(partition, None)
            if not self._membership.is_manual:
                self.left.add(partition)

    def _enter_held(self) -> None:
        """Start reading newly held partitions: fence first, then find the start."""
        new: dict[int, list[int]] = {}
        for partition, generation in self._membership.held.items():
            if partition not in self.entered:
                new.setdefault(generation, []).append(partition)
        for generation, partitions in new.items():
            try:
                self._enter(partitions, generation)
            except LeaseLostError as error:
                # A removed group had higher generations than the new one.
                if isinstance(current := error.fields.get("current"), int):
                    self._membership.raise_generation(current)
                self._give_back(partitions, _RELEASED)
            except BaseException:
                self._give_back([n for n in partitions if n not in self.entered], _RELEASED)
                raise

    def _enter(self, partitions: Collection[int], generation: int) -> None:
        cursors = self._register(partitions, generation)
        self._deliveries.look_at_letters()
        for partition, cursor in cursors.items():
            reason = self._membership.reason_of(partition)
            # Before the partition's first record, so that the listener can prepare.
            self._notify(Assigned(partition, generation, cursor, reason))
        try:
            # All cursors are one value, read once: after registering, no earlier member changes
            # it, and after the listener, which may seek.
            stored = stored_cursors(self._log, self._topic, self._name, cursors, self._tenant)
            for (partition, cursor), each in zip(cursors.items(), stored, strict=True):
                start = cursor if each is None else each.offset
                self._deliveries.enter(partition, start, generation, each)
                self.entered[partition] = generation
                self.left.discard(partition)
                self._counts.partitions_assigned += 1
        except BaseException:
            for partition in sorted(cursors.keys() - self.entered.keys()):
                self._notify(Revoked(partition, generation, _NOT_ENTERED, is_lost=True))
            raise

    def _give_back(self, partitions: Collection[int], reason: str) -> None:
        if partitions:
            self._membership.give_back(partitions, reason)

    # --- the consumer in the log ---

    def _register(
        self, partitions: Collection[int], generation: int | None
    ) -> Mapping[Partition, Offset]:
        starts = {}
        for partition in partitions:
            place = TopicPartition(self._topic, Partition(partition))
            marks = self._log.marks(*place)
            starts[partition] = resolve(
                self._log, place, self._start_of(partition), marks, marks.high
            )
        if not starts:
            return {}
        return self._log.register(
            self._topic, self._name, starts, tenant=self._tenant, generation=generation
        )

    def _start_of(self, partition: int) -> Start | datetime:
        # All records of an added partition were appended after the consumer began.
        is_added = partition >= self._first_count
        return EARLIEST if is_added and isinstance(self._start, Start) else self._start

    def _register_rest(self, count: int) -> None:
        """Create the consumer's cursors in partitions that other members will read."""
        others = [number for number in range(count) if number not in self.entered]
        stored = stored_cursors(self._log, self._topic, self._name, others, self._tenant)
        missing = [number for number, each in zip(others, stored, strict=True) if each is None]
        self._register(missing, None)

    def _send_heartbeat(self) -> None:
        if self._clock.monotonic() < self._heartbeat_at:
            return
        self._heartbeat_at = self._clock.monotonic() + HEARTBEAT_S
        by_generation: dict[int, list[int]] = {}
        for partition, generation in self.entered.items():
            by_generation.setdefault(generation, []).append(partition)
        for generation, partitions in by_generation.items():
            # If one fails, the next follows long before the consumer counts as idle.
            with contextlib.suppress(UnavailableError, LeaseLostError):
                self._register(partitions, generation)

    # --- time ---

    def _schedule(self) -> None:
        if not self._is_closed:
            action = _weakly(weakref.WeakMethod(self._tick))
            self._timer = self._clock.call_later(self._membership.tick_s, action)

    def _tick(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            try:
                self._step()
            except (ClosedError, DroppedError):
                return
            except UnavailableError as error:
                _logger.debug("consumer %s looks at its group again: %s", self._name, error)
            except StrandlineError as error:
                self._failure = error
            self._schedule()

    def _notify(self, event: AssignmentEvent) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            _logger.exception("consumer %s: what watches its partitions failed", self._name)


def _weakly(tick: "weakref.WeakMethod[Callable[[], None]]") -> Callable[[], None]:
    # Weakly: the timer must not keep a consumer without references alive.
    def run() -> None:
        if (found := tick()) is not None:
            found()

    return run
