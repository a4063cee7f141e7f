"""Chooses and leases the next records of a work queue for a member. See design 0096."""

from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from strandline.clock import Clock
from strandline.log import Log
from strandline.subscriptions.blocked_keys import BlockedKeys
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.queue_records import QueueRecords
from strandline.subscriptions.queue_state import (
    NONE_BLOCKED,
    Lease,
    QueueState,
    available,
    next_due_us,
    passed_over,
    with_leases,
    without_left_out,
)
from strandline.subscriptions.queue_store import QueueStore
from strandline.subscriptions.waiting import due_in
from strandline.values import Topic
from strandline.values.arguments import INT64_MAX

WINDOW: Final = 4096
"""How many records of a partition may be leased or waiting at a time."""


class Leased(NamedTuple):
    """The result of one look at a partition."""

    leases: tuple[Lease, ...]
    """The leases that this member has got."""
    is_more: bool
    """Whether to look again at once, because the predicate left out everything so far."""


class _Chosen(NamedTuple):
    offsets: tuple[int, ...]
    due_us: int | None
    is_more: bool
    is_unstored: bool


class QueueLeasing:
    """Leases records to one member. For one thread; any thread may call `store_passed`.

    Records that the predicate leaves out are settled with the next lease; if there is none, at
    most once per POLL_S.
    """

    def __init__(
        self,
        log: Log,
        topic: Topic,
        queue: QueueStore,
        records: QueueRecords,
        *,
        member: str,
        visibility_s: float,
        is_by_key: bool,
        blocked: BlockedKeys | None,
        clock: Clock,
    ) -> None:
        self._log = log
        self._topic = topic
        self._queue = queue
        self._records = records
        self._member = member
        self._visibility_s = visibility_s
        self._is_by_key = is_by_key
        self._blocked = blocked
        self._clock = clock
        #: For each partition: when the next record that waits for a time is due.
        self._due_us: dict[int, int] = {}
        #: For each partition: when left-out records may next be stored separately.
        self._store_at: dict[int, float] = {}
        self._unstored: set[int] = set()

    def lease(self, partition: int, most: int) -> Leased:
        """Lease up to `most` records of a partition to this member."""
        is_storing = self._clock.monotonic() >= self._store_at.get(partition, float("-inf"))
        state, chosen = self._change(partition, most, is_storing=is_storing)
        self._due_us[partition] = INT64_MAX if chosen.due_us is None else chosen.due_us
        if self._records.is_screened and is_storing:
            self._store_at[partition] = self._clock.monotonic() + POLL_S
        (self._unstored.add if chosen.is_unstored else self._unstored.discard)(partition)
        wanted = set(chosen.offsets)
        leases = tuple(each for each in state.leases if each.offset in wanted)
        return Leased(leases, chosen.is_more)

    def is_settled(self, partition: int, state: QueueState) -> bool:
        """Whether no record of a partition in this state can be leased, now or later."""
        if state.leases or state.next < self._log.marks(self._topic, partition).high:
            return False
        self._due_us.pop(partition, None)
        self._unstored.discard(partition)
        return True

    def is_one_due(self, before_us: int) -> bool:
        """Whether a record that waits for a time is due before `before_us`."""
        return any(due_us <= before_us for due_us in self._due_us.values())

    def store_passed(self) -> None:
        """Store the records left out that are not stored yet."""
        # Atomic: another thread may be closing while this one reads.
        for partition in tuple(self._unstored):
            self._change(partition, 0, is_storing=True)
            self._unstored.discard(partition)

    def _blocked_of(self, partition: int) -> Mapping[str, int]:
        """Return the keys blocked by dead letters, including those of other members."""
        if self._blocked is None:
            return NONE_BLOCKED
        self._blocked.look()
        return self._blocked.first_of(partition)

    def _change(self, partition: int, most: int, *, is_storing: bool) -> tuple[QueueState, _Chosen]:
        high = int(self._log.marks(self._topic, partition).high)
        now_us = self._clock.now_us()
        until_us = due_in(self._clock, self._visibility_s)
        sight = self._records.of(partition)

        def change(stored: QueueState) -> tuple[QueueState, _Chosen]:
            is_screened = self._records.is_screened
            state = without_left_out(stored, now_us, sight) if is_screened else stored
            end = min(high, state.next + max(0, WINDOW - len(state.leases)))
            ready = available(
                *(state, end, now_us, sight),
                by_key=self._is_by_key,
                blocked=self._blocked_of(partition),
            )
            chosen = tuple(islice(ready, most))
            due_us = None if chosen else next_due_us(state, end, now_us, sight)
            after = with_leases(state, chosen, self._member, until_us, sight)
            if is_screened:
                # Records after this offset may be ready, and still have to be chosen.
                after = passed_over(after, end if len(chosen) < most else after.next + 1, sight)
            is_more = not chosen and stored.next < after.next and after.next < high
            if not (chosen or is_more or is_storing):
                return stored, _Chosen((), due_us, False, after != stored)
            return after, _Chosen(chosen, due_us, is_more, False)

        return self._queue.change(partition, change)
