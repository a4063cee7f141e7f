"""The cursor: a pure state machine that turns hints and offsets into reads and deliveries.

Invariant: a cursor delivers exactly start, start + 1, start + 2, … of its partition, and
nothing after its removal. It holds because

- `next` moves in one place, `deliver`, by one, for the record that is handed over;
- `end` decides when to read and never what: a hint that is lost, late, repeated or
  wrong only costs time;
- a cursor that has caught up needs nothing after it delivered everything hinted: a watch
  hints at later records, and the end is looked up from time to time in case a hint was
  lost;
- a cursor is one generation of its partition: adding the partition again makes another
  cursor, and records read for one are never delivered by another.

There is no I/O here: ends and offsets go in, needs come out.
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from strandline.subscriptions.markers import CaughtUp, FellBehind, Marker
from strandline.values import Offset, Partition, Topic, UnavailableError


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: Topic
    partition: Partition


class Need(Enum):
    """What a cursor needs next."""

    EMIT_MARKER = auto()
    """To have its marker delivered."""
    READ = auto()
    """To have a page read, from `next` on."""
    LOOK = auto()
    """To have the partition's end read from the store."""
    NOTHING = auto()


# Looking up an enumeration's members is slow.
_EMIT_MARKER, _READ, _LOOK, _NOTHING = Need


class Cursor:
    """The position of one generation of one partition, and its known end."""

    __slots__ = (
        "_behind_max",
        "_has_caught_up",
        "_is_sure",
        "_start",
        "end",
        "fault",
        "is_queued",
        "is_removed",
        "markers",
        "next",
        "place",
    )

    def __init__(self, place: TopicPartition, start: Offset, behind_max: int) -> None:
        self.place: Final = place
        self.next: Offset = start
        self.end: Offset = start
        self.fault: UnavailableError | None = None
        self.is_queued: bool = False
        self.is_removed: bool = False
        self._start = start
        self._behind_max = behind_max
        self._is_sure = False
        self._has_caught_up = False
        self.markers: deque[Marker] = deque()
        """The markers due before the record at `next`, oldest first."""

    @property
    def need(self) -> Need:
        """What it needs next."""
        if self.markers:
            return _EMIT_MARKER
        if self.next < self.end:
            return _READ
        return _NOTHING if self._is_sure and self._has_caught_up else _LOOK

    @property
    def is_at_tail(self) -> bool:
        """Whether the records to read next are recent, and at most one page."""
        return self._has_caught_up

    def hint(self, end: int) -> None:
        """Note that the partition ends at `end` if that is later; otherwise request a look."""
        if end > self.end:
            self._reach(end)
        else:
            # A hint of a known end must cause a look: a dropped topic sends one more hint.
            self._is_sure = False

    def look(self, end: int) -> None:
        """Set the end to `end`, which was read from the store."""
        self._reach(max(end, self.next))
        self._is_sure = True
        if self.next == self.end and not self._has_caught_up:
            self._has_caught_up = True
            self.markers.append(CaughtUp(self.place.partition, self.next, self.place.topic))

    def doubt(self) -> None:
        """Request a look before the next wait."""
        self._is_sure = False

    def find_nothing(self) -> None:
        """A read returned nothing, so the hint was wrong: look at the store."""
        self.end = self.next
        self._is_sure = False

    def deliver(self, offset: int) -> None:
        """Deliver the record at `offset`, which must be the next; all markers come first."""
        assert not self.markers
        assert offset == self.next, f"a log gave {offset} where {self.next} was read"
        # Neither `Offset` nor `max` is called: this is done for each record.
        self.next = offset + 1  # type: ignore[assignment] # It is one.
        if offset >= self.end:
            self.end = self.next

    def deliver_many(self, count: int) -> None:
        """Deliver the next `count` records; all markers come first."""
        assert not self.markers
        self.next = Offset(self.next + count)
        self.end = max(self.end, self.next)

    def pass_over(self, end: int) -> None:
        """Move to `end` without delivering the records before it; all markers come first."""
        assert not self.markers
        assert end >= self.next, f"a cursor at {self.next} does not go back to {end}"
        self.next = Offset(end)
        self.end = max(self.end, self.next)

    def emit_marker(self) -> Marker:
        """Return the oldest marker, and remove it."""
        return self.markers.popleft()

    def _reach(self, end: int) -> None:
        self.end = Offset(end)
        if self._has_caught_up and end - self.next > self._behind_max:
            self._has_caught_up = False
            last = Offset(self.next - 1) if self.next > self._start else None
            self.markers.append(FellBehind(self.place.partition, last, self.place.topic))


class Cursors:
    """The cursors of a subscription, served in turn.

    A cursor that needs something is in the queue, or is being served by the thread that took it
    from there; so a step costs the same for one partition and for thousands.
    """

    def __init__(self, *, behind_max: int) -> None:
        self._behind_max = behind_max
        self._cursors: dict[TopicPartition, Cursor] = {}
        self._queue: deque[Cursor] = deque()

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._cursors

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._cursors)

    def __len__(self) -> int:
        return len(self._cursors)

    def add(self, place: TopicPartition, start: Offset, end: Offset) -> None:
        """Begin a new generation of `place` at `start`; `end` was the end a moment ago."""
        cursor = Cursor(place, start, self._behind_max)
        cursor.look(end)
        self._cursors[place] = cursor
        self.queue(cursor)

    def remove(self, place: TopicPartition) -> Offset | None:
        """End the current generation, and return the offset that it would have delivered next."""
        cursor = self._cursors.pop(place, None)
        if cursor is None:
            return None
        cursor.is_removed = True
        return cursor.next

    def only(self) -> Cursor | None:
        """Return the cursor if there is exactly one."""
        return next(iter(self._cursors.values())) if len(self._cursors) == 1 else None

    def at(self, place: TopicPartition) -> Cursor | None:
        """Return the cursor of the current generation, if there is one."""
        return self._cursors.get(place)

    def hint(self, place: TopicPartition, end: int) -> None:
        """Pass a hint to its cursor, if there still is one."""
        if cursor := self._cursors.get(place):
            cursor.hint(end)
            self.queue(cursor)

    def doubt(self) -> None:
        """Have every cursor look at the store before it waits."""
        for cursor in self._cursors.values():
            cursor.doubt()
            self.queue(cursor)

    def queue(self, cursor: Cursor) -> None:
        """Queue the cursor behind those that wait already."""
        # Here and in `turn`, an interrupt in between may queue it twice, which is harmless.
        if not cursor.is_queued:
            self._queue.append(cursor)
            cursor.is_queued = True

    def put_back(self, cursor: Cursor) -> None:
        """Put the cursor that was just taken back at the front of the queue."""
        self._queue.appendleft(cursor)
        cursor.is_queued = True

    def turn(self) -> Cursor | None:
        """Take the next cursor that needs something, if there is one."""
        while self._queue:
            cursor = self._queue[0]
            cursor.is_queued = False
            self._queue.popleft()
            if not cursor.is_removed and cursor.need is not _NOTHING:
                return cursor
        return None
