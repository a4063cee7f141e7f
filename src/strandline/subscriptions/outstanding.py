"""A consumer's unsettled records of one partition; no I/O.

Invariant: everything before `floor` is settled, and the record at `floor` is not. So a
cursor stored at `floor` never passes an unsettled record, in whatever order they settle.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from strandline.log.gaps import NO_GAPS, Gaps
from strandline.subscriptions.runs import OffsetRuns, runs_of
from strandline.values import InvalidError, Offset, UnavailableError

DELIVERIES_MAX: Final = 5
"""The number of deliveries after which a nacked record is dead-lettered."""

RUN_MIN: Final = 16
"""The minimum of consecutive first deliveries that are stored as one run."""

OUTSTANDING_MAX: Final = 1024
"""How many records beyond its first unsettled one a consumer may have."""

WAITING_MAX: Final = 4096
"""How many records of a partition may wait for a time before reading pauses."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """How the deliveries of a record so far have ended. See design 0071."""

    shared: int = 0
    """With the process, while others were in flight; the first may not have been made at all."""
    alone: int = 0
    """With the process, while no other record was in flight."""
    failed: int = 0
    """With a nack."""

    @property
    def count(self) -> int:
        """The number of deliveries."""
        return self.shared + self.alone + self.failed

    @property
    def charged(self) -> int:
        """The number of deliveries whose failure is certainly the record's own."""
        return self.alone + self.failed

    @property
    def is_suspect(self) -> bool:
        """Whether the record was in flight when a process ended."""
        return self.shared + self.alone > 0

    def is_too_often(self, deliveries_max: int) -> bool:
        """Whether to dead-letter the record instead of delivering it once more.

        Only with evidence: a process has ended while this record was in flight alone.
        """
        return self.alone > 0 and self.charged + max(0, self.shared - 1) >= deliveries_max


class Outstanding:
    """The deliveries of one partition at or after its floor."""

    __slots__ = (
        "_delayed",
        "_delivered",
        "_earlier",
        "_in_flight",
        "_is_ending",
        "_kept",
        "_next",
        "_passed",
        "_reserved_end",
        "_resting",
        "_settled",
        "_waits",
        "floor",
        "generation",
        "is_noted",
        "stored",
        "stored_gaps",
    )

    def __init__(self, floor: Offset, earlier: Mapping[int, Attempts], generation: int = 0) -> None:
        self.generation: Final = generation
        """The generation in which its member holds the partition."""
        self._earlier = dict(earlier)
        """The ended deliveries of unsettled records, also in earlier processes."""
        self.floor: Offset = floor
        self.stored: Offset = floor
        """The cursor in the log, as far as is known."""
        self.stored_gaps: Gaps = NO_GAPS
        """The gaps stored in the log with the cursor."""
        self._kept = OffsetRuns()
        """The settled runs of those gaps that lie beyond the floor."""
        self._in_flight: dict[int, bool] = {}
        """For each record that is neither settled nor resting: whether it is in flight alone."""
        self._delivered: set[int] = set()
        """Delivered, and not settled."""
        self._settled = OffsetRuns()
        self._delayed: set[int] = set()
        self._resting: set[int] = set()
        """Delivered records that wait for the time of a nack that is stored in the log."""
        self._waits: dict[int, int | None] = {}
        """Delayed records that wait for a time: that of a nack, or None for their own."""
        self._passed = OffsetRuns()
        """Offsets that a predicate leaves out."""
        self._is_ending = False
        """Whether everything settled beyond the floor is stored, though no record waits."""
        self._next = int(floor)
        """The first offset that was not delivered here."""
        self._reserved_end = int(floor)
        self.is_noted: bool = True
        """Whether the log has all that `worth_keeping` would return, or does not need it."""

    @property
    def room(self) -> int:
        """How many more records may be delivered."""
        return max(0, OUTSTANDING_MAX - len(self))

    @property
    def is_full_of_waiting(self) -> bool:
        """Whether so many records wait for a time that reading pauses."""
        return len(self._waits) >= WAITING_MAX

    def check_room(self, partition: int) -> None:
        """Raise UnavailableError unless one more record may be delivered."""
        if not self.room:
            raise UnavailableError(
                "too many records are outstanding, ack the first of them",
                partition=partition,
                first=self.floor,
            )

    def __len__(self) -> int:
        # Settled records count: after a crash they are delivered again, unless stored as gaps.
        given = len(self._delivered) - len(self._resting)
        return given + max(0, self._settled.count - self._kept.count)

    def attempts(self, offset: int) -> Attempts:
        """Return how the record's deliveries so far have ended."""
        return self._earlier.get(offset, Attempts())

    def in_flight(self, *, besides: int | None = None) -> int:
        """Return how many records are neither settled nor resting."""
        return len(self._in_flight) - (besides in self._in_flight)

    def begin(self, offset: int, *, alone: bool) -> None:
        """Set the record in flight, unless it was settled meanwhile."""
        if not self.is_settled(offset):
            self._in_flight[offset] = alone

    def share(self) -> None:
        """Mark all records in flight as not alone."""
        if any(self._in_flight.values()):
            self._in_flight = dict.fromkeys(self._in_flight, False)
            self.is_noted = False

    def is_alone(self, offset: int) -> bool:
        """Whether the record is in flight, and alone."""
        return self._in_flight.get(offset, False)

    def is_reserved(self, offset: int) -> bool:
        """Whether the record's first delivery was counted ahead."""
        return self._next <= offset < self._reserved_end and offset not in self._earlier

    def reserve(self, end: int) -> None:
        """Count first deliveries before `end` ahead."""
        self._reserved_end = max(self._reserved_end, end)

    def release(self) -> None:
        """Uncount what was counted ahead."""
        if self._next < self._reserved_end:
            self._reserved_end = self._next
            self.is_noted = False

    def end(self) -> None:
        """Have gaps stored for what is settled: no later ack will raise the floor over it."""
        self._is_ending = True

    def withdraw(self, handled: Iterable[int]) -> None:
        """Uncount the records in flight, except these, because they were never handled."""
        kept = self._in_flight.keys() & set(handled)
        if len(kept) < len(self._in_flight):
            self._in_flight = {offset: self._in_flight[offset] for offset in kept}
            self.is_noted = False

    def is_first(self, offset: int) -> bool:
        """Whether the record was never delivered before, in any process."""
        return offset not in self._earlier

    def begin_many(self, offsets: Sequence[int], *, alone: bool) -> None:
        """Set records in flight for their first delivery."""
        self._in_flight.update(dict.fromkeys(offsets, alone))

    def deliver_many(self, offsets: Sequence[int]) -> None:
        """Record first deliveries."""
        self._delivered.update(offsets)
        self._next = max(self._next, offsets[-1] + 1)

    def deliver(self, offset: int) -> int:
        """Record a delivery, and return how many there were with this one."""
        self._delivered.add(offset)
        self._next = max(self._next, offset + 1)
        return self.attempts(offset).count + 1

    def pass_over(self, end: int) -> int:
        """Skip what was not delivered before `end`; return the number of records skipped."""
        passed = end - self._next
        if passed <= 0:
            return 0
        self._passed.add(self._next, end)
        self._next = end
        self._rise()
        return passed

    def adopt(self, offset: int) -> None:
        """Allow the record to be settled, though this consumer object may not have delivered it."""
        if not self.is_settled(offset):
            self._delivered.add(offset)
            self._next = max(self._next, offset + 1)

    def first_runs(self) -> list[tuple[int, int]]:
        """Return long runs of first deliveries in flight, which `worth_keeping` omits."""
        runs: list[tuple[int, int]] = []
        start = end = -1
        for offset in sorted(self._in_flight):
            is_plain = not self._in_flight[offset] and offset not in self._earlier
            if is_plain and offset == end:
                end += 1
                continue
            runs.append((start, end))
            start, end = (offset, offset + 1) if is_plain else (-1, -1)
        runs.append((start, end))
        return [(start, end) for start, end in runs if end - start >= RUN_MIN]

    def worth_keeping(self, runs: Iterable[tuple[int, int]] = ()) -> dict[int, Attempts]:
        """Return what the consumer's next process would need if this one ended now."""
        kept = {n: each for n, each in self._earlier.items() if not self.is_settled(n)}
        known = {offset for start, end in runs for offset in range(start, end)}
        for offset in self._in_flight.keys() - known:
            kept[offset] = _ended(self.attempts(offset), alone=self._in_flight[offset])
        for offset in range(self._next, self._reserved_end):
            kept.setdefault(offset, Attempts(shared=1))
        return kept

    def count(self, offset: int) -> int:
        """Return how often the record was delivered; InvalidError if it is not outstanding."""
        if offset in self._delivered:
            return self.attempts(offset).count + (offset in self._in_flight)
        raise InvalidError("this record is not outstanding, nack what was delivered", offset=offset)

    def is_settled(self, offset: int) -> bool:
        """Whether the record needs no further delivery."""
        return offset < self.floor or offset in self._settled

    def is_outstanding(self, offset: int) -> bool:
        """Whether the record was delivered and is not settled."""
        return offset in self._delivered

    def up_to(self, offset: int) -> list[int]:
        """Return the outstanding records up to this one; raises as `floor_after`."""
        self._check_delivered({offset})
        return sorted(each for each in self._delivered if each <= offset)

    def floor_after(self, offsets: Collection[int]) -> Offset:
        """Return the floor after settling these records; raises as `settle`."""
        settled = set(offsets)
        self._check_delivered(settled)
        return Offset(self._risen(settled))

    def gaps_after(self, offsets: Collection[int]) -> Gaps | None:
        """Return the gaps to store after settling these records; None if there are none.

        Gaps are stored from when a record waits for a time until the cursor has caught up,
        and at an orderly end.
        """
        if not (self._waits or self._kept or self._is_ending):
            return None
        runs = OffsetRuns((*self._settled, *self._passed))
        for offset in offsets:
            if offset >= self.floor:
                runs.add(offset, offset + 1)
        runs.drop_before(self._risen(set(offsets)))
        gone = set(offsets)
        delays = {n: at for n, at in self._waits.items() if at is not None and n not in gone}
        return Gaps(tuple(runs), tuple(sorted(delays.items())))

    def gaps_with(self, offset: int, due_us: int) -> Gaps:
        """Return the gaps to store for a record that is about to wait for a time."""
        known = self.gaps_after(()) or Gaps(tuple(OffsetRuns((*self._settled, *self._passed))))
        return known._replace(delays=tuple(sorted({**dict(known.delays), offset: due_us}.items())))

    def settle(self, offsets: Iterable[int]) -> None:
        """Settle these records. May be repeated; InvalidError for one that was never delivered."""
        new = {offset for offset in offsets if offset >= self.floor}
        self._check_delivered(new)
        # First: records that an interrupt leaves half done are settled, and may be settled again.
        for start, end in runs_of(new):
            self._settled.add(start, end)
        if self._delayed or self._resting or self._waits:
            for offset in new:
                self.end_delay(offset)
        for offset in new:
            self._in_flight.pop(offset, None)
            self._earlier.pop(offset, None)
        self._delivered -= new
        self._rise()

    def keep(self, gaps: Gaps) -> None:
        """Record that the log has these gaps."""
        self.stored_gaps = gaps
        self._kept = OffsetRuns(gaps.settled)
        self._kept.drop_before(self.floor)

    def unsettled(self, high: int) -> int:
        """Return how many records before `high` would be delivered again if this process ended."""
        return high - self.floor - self._kept.count

    def _rise(self) -> None:
        """Raise the floor over everything settled or passed over."""
        floor = self._risen(())
        if floor > self.floor:
            self.floor = Offset(floor)
            self._settled.drop_before(floor)
            self._passed.drop_before(floor)
            self._kept.drop_before(floor)

    def _risen(self, settled: Collection[int]) -> int:
        floor = int(self.floor)
        while True:
            if floor in settled:
                floor += 1
            elif (end := self._settled.end_of(floor) or self._passed.end_of(floor)) is not None:
                floor = end
            else:
                return floor

    def _check_delivered(self, offsets: AbstractSet[int]) -> None:
        for offset in offsets - self._delivered:
            if offset >= self.floor and offset not in self._settled:
                raise InvalidError("this record was not delivered here", offset=offset)

    def wait(self, offset: int) -> None:
        """Postpone a record that has its own delivery time, before its first delivery."""
        self._next = max(self._next, offset + 1)
        self._delayed.add(offset)
        self._waits[offset] = None

    def resume(self, gaps: Gaps, end: int) -> None:
        """Start with gaps that an earlier process has stored; nothing before `end` is read."""
        for run in gaps.settled:
            self._settled.add(*run)
        self._next = self._reserved_end = max(self._next, end)
        self._rise()
        self.keep(gaps)

    def resume_delay(self, offset: int, due_us: int | None, *, waits: bool) -> None:
        """Have a record between gaps delivered, at the time of its nack or its own time."""
        self._delayed.add(offset)
        if waits:
            self._waits[offset] = due_us

    def delay(self, offset: int, due_us: int | None) -> bool:
        """Postpone a record that has failed; False if it waits already."""
        if offset in self._delayed:
            return False
        self._delayed.add(offset)
        if due_us is not None:
            self._waits[offset] = due_us
            if offset in self._delivered:
                self._resting.add(offset)
        self._in_flight.pop(offset, None)
        earlier = self.attempts(offset)
        self._earlier[offset] = replace(earlier, failed=earlier.failed + 1)
        return True

    def put_back(self, offset: int) -> bool:
        """Uncount a delivery that no caller has seen; False if the record waits, or is settled."""
        if offset in self._delayed or offset not in self._delivered:
            return False
        self._delayed.add(offset)
        self._in_flight.pop(offset, None)
        self.is_noted = False
        return True

    def is_delayed(self, offset: int) -> bool:
        """Whether the record waits to be delivered again."""
        return offset in self._delayed

    def end_delay(self, offset: int) -> None:
        """End the record's wait, if it was not settled meanwhile."""
        self._delayed.discard(offset)
        self._resting.discard(offset)
        self._waits.pop(offset, None)


def _ended(attempts: Attempts, *, alone: bool) -> Attempts:
    """Return the attempts, assuming that the process ends during the next one."""
    if alone:
        return replace(attempts, alone=attempts.alone + 1)
    return replace(attempts, shared=attempts.shared + 1)
