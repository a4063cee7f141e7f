"""The state of one partition that the members of a work queue share; no I/O. See design 0096.

Invariants: everything before `floor` is settled, and the record at `floor` is not. Runs of
`settled` lie above the floor, ascend, and do not touch. Every record before `next` that is
not settled has an entry; no record from `next` on was ever delivered.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

import msgspec

from strandline.subscriptions.queue_records import QueueRecord, Sight

FREE: Final = ""
"""The holder of a record that waits to be delivered again."""


NONE_BLOCKED: Final[Mapping[str, int]] = {}


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A record that is leased, or waits for a time, and is not settled."""

    offset: int
    count: int
    """How often it was delivered."""
    until_us: int
    """When it may next be delivered."""
    holder: str
    """The member that has it; FREE for none."""


class QueueState(msgspec.Struct, frozen=True):
    """One partition of a work queue."""

    floor: int
    next: int
    settled: tuple[tuple[int, int], ...] = ()
    """Runs [start, end) of settled records above the floor."""
    leases: tuple[Lease, ...] = ()
    """By offset."""
    cursor: int = 0
    """A lower bound of the consumer's cursor in the log."""
    epoch: str = ""
    """The id of the epoch of the record before `next`; empty in states of earlier versions."""
    seek_id: UUID | None = None
    """The id of the seek that set the consumer's cursor. See `following`."""

    def lease(self, offset: int) -> Lease | None:
        """Return the entry of a record."""
        return next((each for each in self.leases if each.offset == offset), None)

    def is_settled(self, offset: int) -> bool:
        """Whether a record needs no further delivery."""
        if offset < self.floor:
            return True
        before = bisect_right(self.settled, offset, key=lambda run: run[0])
        return before > 0 and offset < self.settled[before - 1][1]

    @property
    def settled_count(self) -> int:
        """How many records above the floor are settled."""
        return sum(end - start for start, end in self.settled)


def available(
    state: QueueState,
    end: int,
    now_us: int,
    sight: Sight,
    *,
    by_key: bool,
    blocked: Mapping[str, int] = NONE_BLOCKED,
) -> Iterator[int]:
    """Yield the records that may be delivered now, in order, up to `end`.

    With `by_key`, a record waits while an earlier one of its key is unsettled (unless that one
    waits for its own time), and while another one of its key is held. A record with a
    `blocked` key is yielded only up to the offset at which the key is blocked.
    """
    busy: set[str | None] = set()
    if by_key:
        held = (each.offset for each in state.leases if each.holder and each.until_us > now_us)
        busy = {sight(offset).key for offset in held}
        busy.discard(None)
    for offset, until_us, is_new in _unsettled(state, end, sight):
        key = sight(offset).key if by_key else None
        is_ready = until_us <= now_us
        if key is not None and (key in busy or blocked.get(key, offset) < offset):
            continue
        if is_ready:
            yield offset
        if key is not None and (is_ready or not is_new):
            busy.add(key)


def next_due_us(state: QueueState, end: int, now_us: int, sight: Sight) -> int | None:
    """Return when the next record that waits for a time is due; None if there is none."""
    waiting = (at for _, at, _ in _unsettled(state, end, sight) if at > now_us)
    return min(waiting, default=None)


def _unsettled(state: QueueState, end: int, sight: Sight) -> Iterator[tuple[int, int, bool]]:
    """Yield each open record: its offset, when it is due, and whether it was never delivered."""
    for each in state.leases:
        yield each.offset, each.until_us, not each.count
    for offset, seen in _ahead(state.next, end, sight):
        if not seen.passed_to:
            yield offset, seen.due_us, True


def _ahead(start: int, end: int, sight: Sight) -> Iterator[tuple[int, QueueRecord]]:
    """Yield each record in [start, end), but only the first of each left-out run."""
    offset = start
    while offset < end:
        seen = sight(offset)
        yield offset, seen
        offset = max(offset + 1, seen.passed_to)


def with_leases(
    state: QueueState, offsets: Iterable[int], holder: str, until_us: int, sight: Sight
) -> QueueState:
    """Return the state with these records leased to a member, and their counts raised."""
    chosen = [*offsets]
    last = max(chosen, default=-1)
    state = _advanced(state, last, sight)
    known = {each.offset: each for each in state.leases}
    for offset in chosen:
        count = known[offset].count if offset in known else 0
        known[offset] = Lease(offset, count + 1, until_us, holder)
    following = max(state.next, last + 1)
    return msgspec.structs.replace(state, next=following, leases=_in_order(known.values()))


def _advanced(state: QueueState, end: int, sight: Sight) -> QueueState:
    """Return the state with `next` at `end`, or after a left-out run that goes beyond.

    Records skipped because of their key or time get entries without a holder; left-out ones
    are settled.
    """
    runs, entries = [], []
    following = state.next
    for offset, seen in _ahead(state.next, end, sight):
        following = max(offset + 1, seen.passed_to)
        if seen.passed_to:
            runs.append((offset, following))
        else:
            entries.append(Lease(offset, 0, seen.due_us, FREE))
    if following == state.next:
        return state
    leases = (*state.leases, *entries)
    moved = msgspec.structs.replace(state, next=following, leases=leases)
    return _with_runs(moved, runs) if runs else moved


def passed_over(state: QueueState, end: int, sight: Sight) -> QueueState:
    """Return the state with never-delivered records settled that the predicate leaves out."""
    passed = [seen.passed_to for _, seen in _ahead(state.next, end, sight)]
    return _advanced(state, max(passed, default=0), sight)


def without_left_out(state: QueueState, now_us: int, sight: Sight) -> QueueState:
    """Return the state with waiting, unheld records settled that the predicate leaves out."""
    runs = [
        (each.offset, each.offset + 1)
        for each in state.leases
        if (not each.holder or each.until_us <= now_us) and sight(each.offset).passed_to
    ]
    return _with_runs(state, runs) if runs else state


def with_lease(state: QueueState, lease: Lease) -> QueueState:
    """Return the state with one entry replaced."""
    others = (each for each in state.leases if each.offset != lease.offset)
    return msgspec.structs.replace(state, leases=_in_order((*others, lease)))


def given_back(state: QueueState, holder: str) -> QueueState:
    """Return the state with a member's leases released."""
    leases = (
        Lease(each.offset, each.count, 0, FREE) if each.holder == holder else each
        for each in state.leases
    )
    return msgspec.structs.replace(state, leases=tuple(leases))


def with_settled(state: QueueState, offsets: Iterable[int]) -> QueueState:
    """Return the state with these records settled, and the floor raised accordingly."""
    return _with_runs(state, ((each, each + 1) for each in offsets))


def _with_runs(state: QueueState, settled: Iterable[tuple[int, int]]) -> QueueState:
    gone = (run for run in settled if run[1] > state.floor)
    runs = _joined((*state.settled, *gone))
    floor = state.floor
    if runs and runs[0][0] <= floor:
        floor = runs[0][1]
        runs = runs[1:]
    after = msgspec.structs.replace(state, floor=floor, next=max(state.next, floor), settled=runs)
    leases = tuple(each for each in state.leases if not after.is_settled(each.offset))
    return msgspec.structs.replace(after, leases=leases)


def moved_to(state: QueueState, floor: int) -> QueueState:
    """Return the state with everything before `floor` settled."""
    if floor <= state.floor:
        return state
    kept = _joined((*state.settled, (state.floor, floor)))
    joined_floor = kept[0][1]
    return msgspec.structs.replace(
        state,
        floor=joined_floor,
        next=max(state.next, joined_floor),
        settled=kept[1:],
        leases=tuple(each for each in state.leases if each.offset >= joined_floor),
    )


def following(state: QueueState, cursor: int, seek_id: UUID | None) -> QueueState:
    """Return the state that matches a consumer's cursor, and the seek that set it."""
    # For a cursor of an earlier version compare offsets: acks never move it back.
    if cursor < state.cursor if seek_id is None else seek_id != state.seek_id:
        return QueueState(cursor, cursor, cursor=cursor, seek_id=seek_id)
    moved = moved_to(state, cursor)
    return msgspec.structs.replace(moved, cursor=cursor, seek_id=seek_id)


def cut_to(state: QueueState, high: int) -> QueueState:
    """Return the state for a partition that ends at `high`, and may have lost records."""
    if state.next <= high:
        return state
    runs = tuple((start, min(end, high)) for start, end in state.settled if start < high)
    return msgspec.structs.replace(
        state,
        floor=min(state.floor, high),
        next=high,
        settled=runs,
        leases=tuple(each for each in state.leases if each.offset < high),
        cursor=min(state.cursor, high),
    )


def _in_order(leases: Iterable[Lease]) -> tuple[Lease, ...]:
    return tuple(sorted(leases, key=lambda each: each.offset))


def _joined(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(runs):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return tuple(found)
