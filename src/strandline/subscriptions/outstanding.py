"""What a consumer was given of one partition and has not settled: pure, no I/O.

Invariant: everything before `floor` is settled, and the record at `floor` is not. So a
cursor stored at `floor` is never ahead of what was processed, in whatever order that was.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from strandline.log.gaps import NO_GAPS, Gaps
from strandline.subscriptions.runs import OffsetRuns, runs_of
from strandline.values import InvalidError, Offset, UnavailableError

DELIVERIES_MAX: Final = 5
"""After how many deliveries a record that is nacked again is dead-lettered."""

RUN_MIN: Final = 16
"""How many first deliveries in a row are noted as one run."""

OUTSTANDING_MAX: Final = 1024
"""How many records a consumer gets beyond the first that it has not acked."""

WAITING_MAX: Final = 4096
"""How many records of a partition wait for their time before it is read no further."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """How the deliveries of a record have ended so far. See design 0071."""

    shared: int = 0
    """With the process, while others were in flight; the first may never have been made."""
    alone: int = 0
    """With the process, while no other record was in flight."""
    failed: int = 0
    """By a nack."""

    @property
    def count(self) -> int:
        """How many deliveries that makes."""
        return self.shared + self.alone + self.failed

    @property
    def charged(self) -> int:
        """How many of them are the record's own fault."""
        return self.alone + self.failed

    @property
    def is_suspect(self) -> bool:
        """Whether the record was in flight when a process ended."""
        return self.shared + self.alone > 0

    def is_too_often(self, deliveries_max: int) -> bool:
        """Whether the record is dead-lettered instead of being delivered once more.

        Never without evidence: a process has ended while this record alone was in flight.
        """
        return self.alone > 0 and self.charged + max(0, self.shared - 1) >= deliveries_max


class Outstanding:
    """The deliveries of one partition at or after its floor."""

    __slots__ = (
        "_delayed",
        "_delivered",
        "_earlier",
        "_in_flight",
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
        """That in which its member holds the partition."""
        self._earlier = dict(earlier)
        """The deliveries of unsettled records that have ended, also in earlier processes."""
        self.floor: Offset = floor
        self.stored: Offset = floor
        """The cursor as the log has it, as far as is known."""
        self.stored_gaps: Gaps = NO_GAPS
        """What is settled beyond the cursor, as the log has it."""
        self._kept = OffsetRuns()
        """The same, as far as it is beyond the floor."""
        self._in_flight: dict[int, bool] = {}
        """Whether it is alone, for each record that is neither settled nor resting."""
        self._delivered: set[int] = set()
        """And not settled."""
        self._settled = OffsetRuns()
        self._delayed: set[int] = set()
        self._resting: set[int] = set()
        """Of what was delivered, what waits for the time of a nack that the log keeps."""
        self._waits: dict[int, int | None] = {}
        """Of what is delayed, what waits for a time: that of a nack, or None for its own."""
        self._passed = OffsetRuns()
        """What a predicate leaves out."""
        self._next = int(floor)
        """The first record that was not delivered here."""
        self._reserved_end = int(floor)
        self.is_noted: bool = True
        """Whether the log knows all that `worth_keeping` would say, or less suffices."""

    @property
    def room(self) -> int:
        """How many records may be given besides."""
        return max(0, OUTSTANDING_MAX - len(self))

    @property
    def is_full_of_waiting(self) -> bool:
        """Whether so many records wait for their time that no more are read."""
        return len(self._waits) >= WAITING_MAX

    def check_room(self, partition: int) -> None:
        """Raise UnavailableError unless one more record may be given."""
        if not self.room:
            raise UnavailableError(
                "too many records are outstanding, ack the first of them",
                partition=partition,
                first=self.floor,
            )

    def __len__(self) -> int:
        # What is settled comes again after a crash, unless a gap in the log keeps it.
        given = len(self._delivered) - len(self._resting)
        return given + max(0, self._settled.count - self._kept.count)

    def attempts(self, offset: int) -> Attempts:
        """Return how the record's deliveries have ended so far."""
        return self._earlier.get(offset, Attempts())

    def in_flight(self, *, besides: int | None = None) -> int:
        """Return how many records are neither settled nor resting."""
        return len(self._in_flight) - (besides in self._in_flight)

    def begin(self, offset: int, *, alone: bool) -> None:
        """The record is in flight from now on, unless it was settled meanwhile."""
        if not self.is_settled(offset):
            self._in_flight[offset] = alone

    def share(self) -> None:
        """No record is alone in flight any more."""
        if any(self._in_flight.values()):
            self._in_flight = dict.fromkeys(self._in_flight, False)
            self.is_noted = False

    def is_alone(self, offset: int) -> bool:
        """Whether the record is in flight, and alone."""
        return self._in_flight.get(offset, False)

    def is_reserved(self, offset: int) -> bool:
        """Whether the first delivery of the record is counted already."""
        return self._next <= offset < self._reserved_end and offset not in self._earlier

    def reserve(self, end: int) -> None:
        """First deliveries before `end` are counted."""
        self._reserved_end = max(self._reserved_end, end)

    def release(self) -> None:
        """Nothing is reserved any more."""
        if self._next < self._reserved_end:
            self._reserved_end = self._next
            self.is_noted = False

    def withdraw(self, handled: Iterable[int]) -> None:
        """What is in flight was never handled, but for these."""
        kept = self._in_flight.keys() & set(handled)
        if len(kept) < len(self._in_flight):
            self._in_flight = {offset: self._in_flight[offset] for offset in kept}
            self.is_noted = False

    def is_first(self, offset: int) -> bool:
        """Whether the record was never delivered before, in any process."""
        return offset not in self._earlier

    def begin_many(self, offsets: Sequence[int], *, alone: bool) -> None:
        """First deliveries are in flight from now on, and handed over."""
        self._in_flight.update(dict.fromkeys(offsets, alone))

    def deliver_many(self, offsets: Sequence[int]) -> None:
        """Note that first deliveries are handed over."""
        self._delivered.update(offsets)
        self._next = max(self._next, offsets[-1] + 1)

    def deliver(self, offset: int) -> int:
        """Note that the record is handed over, and return how many deliveries that makes."""
        self._delivered.add(offset)
        self._next = max(self._next, offset + 1)
        return self.attempts(offset).count + 1

    def pass_over(self, end: int) -> int:
        """What was not delivered before `end` never is; return how many records that are."""
        passed = end - self._next
        if passed <= 0:
            return 0
        self._passed.add(self._next, end)
        self._next = end
        self._rise()
        return passed

    def take_on(self, offset: int) -> None:
        """Let the record be settled, though this consumer object may not have delivered it."""
        if not self.is_settled(offset):
            self._delivered.add(offset)
            self._next = max(self._next, offset + 1)

    def first_runs(self) -> list[tuple[int, int]]:
        """Return long runs of first deliveries in flight, which `worth_keeping` leaves out."""
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
        """Return what the consumer's next process needs, should this one end now."""
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
        """Whether the record needs no delivery any more."""
        return offset < self.floor or offset in self._settled

    def is_outstanding(self, offset: int) -> bool:
        """Whether the record was delivered and is not settled."""
        return offset in self._delivered

    def up_to(self, offset: int) -> list[int]:
        """Return what is outstanding up to this record; raises as `floor_after`."""
        self._check_delivered({offset})
        return sorted(each for each in self._delivered if each <= offset)

    def floor_after(self, offsets: Collection[int]) -> Offset:
        """Return the floor as `settle` of each would leave it; raises as that does."""
        settled = set(offsets)
        self._check_delivered(settled)
        return Offset(self._risen(settled))

    def gaps_after(self, offsets: Collection[int]) -> Gaps | None:
        """Return the gaps to store as `settle` of each would leave them; None for none.

        They are kept from when a record waits for its time until the cursor has caught up.
        """
        if not self._waits and not self._kept:
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
        """Each is settled; again is no error, but InvalidError if one was never delivered."""
        new = {offset for offset in offsets if offset >= self.floor}
        self._check_delivered(new)
        # First: what an interrupt leaves half done is settled, and may be settled again.
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
        """The log has these gaps from now on."""
        self.stored_gaps = gaps
        self._kept = OffsetRuns(gaps.settled)
        self._kept.drop_before(self.floor)

    def unsettled(self, high: int) -> int:
        """Return how many records before `high` would come, should this process end now."""
        return high - self.floor - self._kept.count

    def _rise(self) -> None:
        """Have the floor where everything before it is settled or passed over."""
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
        """The record is delivered at its own time, and was not before."""
        self._next = max(self._next, offset + 1)
        self._delayed.add(offset)
        self._waits[offset] = None

    def resume(self, gaps: Gaps, end: int) -> None:
        """Begin with gaps that an earlier process has stored: nothing before `end` is read."""
        for run in gaps.settled:
            self._settled.add(*run)
        self._next = self._reserved_end = max(self._next, end)
        self._rise()
        self.keep(gaps)

    def resume_delay(self, offset: int, due_us: int | None, *, waits: bool) -> None:
        """Have a record between gaps delivered, at the time of its nack or its own."""
        self._delayed.add(offset)
        if waits:
            self._waits[offset] = due_us

    def delay(self, offset: int, due_us: int | None = None) -> bool:
        """The record has failed and waits to be delivered again; False if it does already."""
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

    def is_delayed(self, offset: int) -> bool:
        """Whether the record waits to be delivered again."""
        return offset in self._delayed

    def end_delay(self, offset: int) -> None:
        """The record's wait is over, if it was not settled meanwhile."""
        self._delayed.discard(offset)
        self._resting.discard(offset)
        self._waits.pop(offset, None)


def _ended(attempts: Attempts, *, alone: bool) -> Attempts:
    """Return what the attempts are if the process ends during the next one."""
    if alone:
        return replace(attempts, alone=attempts.alone + 1)
    return replace(attempts, shared=attempts.shared + 1)
