"""The cursor: a pure state machine that turns hints and offsets into reads and deliveries.

Invariant: a cursor delivers exactly start, start + 1, start + 2, … of its partition, and
nothing once it has been removed. It holds because

- `next` moves in one place, `deliver`, by one, for the record that is handed over;
- `end` decides when to read and never what: a hint that is lost, late, repeated or
  wrong costs time only;
- a cursor that has caught up needs nothing once it has delivered all that was hinted:
  a watch hints at whatever comes later, and a look is requested from time to time, so
  a hint that never came is made up for;
- a cursor is one generation of its partition: adding the partition again makes another
  cursor, and what was read for one is never delivered by another.

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
    """Its marker delivered."""
    READ = auto()
    """A page from `next` on."""
    LOOK = auto()
    """The store's word on where the partition ends."""
    NOTHING = auto()


# Members of an enumeration are slow to look up.
_EMIT_MARKER, _READ, _LOOK, _NOTHING = Need


class Cursor:
    """Where one generation of one partition goes on, and how far it may."""

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
        """What is to be said before the record at `next`, oldest first."""

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
        """Whether what it reads next was written a moment ago, and is a page at most."""
        return self._has_caught_up

    def hint(self, end: int) -> None:
        """Note that the partition ends at `end` if that is later, else look."""
        if end > self.end:
            self._reach(end)
        else:
            # A hint of a known end is a reason to look: a topic that was dropped hints once more.
            self._is_sure = False

    def look(self, end: int) -> None:
        """Know that the partition ends at `end`, whatever the hints said."""
        self._reach(max(end, self.next))
        self._is_sure = True
        if self.next == self.end and not self._has_caught_up:
            self._has_caught_up = True
            self.markers.append(CaughtUp(self.place.partition, self.next, self.place.topic))

    def doubt(self) -> None:
        """Request a look before the next wait."""
        self._is_sure = False

    def find_nothing(self) -> None:
        """A read returned nothing: the hint was wrong, look at the store."""
        self.end = self.next
        self._is_sure = False

    def deliver(self, offset: int) -> None:
        """Hand over the record at `offset`, which is the next one, once all markers are."""
        assert not self.markers
        assert offset == self.next, f"a log gave {offset} where {self.next} was read"
        # Neither `Offset` nor `max` is called: this is done for each record.
        self.next = offset + 1  # type: ignore[assignment] # It is one.
        if offset >= self.end:
            self.end = self.next

    def deliver_many(self, count: int) -> None:
        """Hand over so many records, the next ones, once all markers are."""
        assert not self.markers
        self.next = Offset(self.next + count)
        self.end = max(self.end, self.next)

    def pass_over(self, end: int) -> None:
        """Move on to `end` without handing over what is before it, once all markers are."""
        assert not self.markers
        assert end >= self.next, f"a cursor at {self.next} does not go back to {end}"
        self.next = Offset(end)
        self.end = max(self.end, self.next)

    def emit_marker(self) -> Marker:
        """Hand over the oldest marker."""
        return self.markers.popleft()

    def _reach(self, end: int) -> None:
        self.end = Offset(end)
        if self._has_caught_up and end - self.next > self._behind_max:
            self._has_caught_up = False
            last = Offset(self.next - 1) if self.next > self._start else None
            self.markers.append(FellBehind(self.place.partition, last, self.place.topic))


class Cursors:
    """The cursors of a subscription, each in its turn.

    A cursor that needs something is queued, or is being served by the thread that took it from
    the queue; so a step costs the same for one partition and for thousands.
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
        """Begin a new generation of `place` at `start`; it ended at `end` a moment ago."""
        cursor = Cursor(place, start, self._behind_max)
        cursor.look(end)
        self._cursors[place] = cursor
        self.queue(cursor)

    def remove(self, place: TopicPartition) -> Offset | None:
        """End the present generation, and return what it would have delivered next."""
        cursor = self._cursors.pop(place, None)
        if cursor is None:
            return None
        cursor.is_removed = True
        return cursor.next

    def only(self) -> Cursor | None:
        """Return the only cursor, if there is one only."""
        return next(iter(self._cursors.values())) if len(self._cursors) == 1 else None

    def at(self, place: TopicPartition) -> Cursor | None:
        """Return the cursor of the present generation, if there is one."""
        return self._cursors.get(place)

    def hint(self, place: TopicPartition, end: int) -> None:
        """Pass a hint on to its cursor, if there still is one."""
        if cursor := self._cursors.get(place):
            cursor.hint(end)
            self.queue(cursor)

    def doubt(self) -> None:
        """Have every cursor look before it rests."""
        for cursor in self._cursors.values():
            cursor.doubt()
            self.queue(cursor)

    def queue(self, cursor: Cursor) -> None:
        """Let the cursor have its turn, after those that wait already."""
        # Here and in `turn`, an interrupt in between queues it twice, which does no harm.
        if not cursor.is_queued:
            self._queue.append(cursor)
            cursor.is_queued = True

    def put_back(self, cursor: Cursor) -> None:
        """Have the turn that was just taken be the next one again."""
        self._queue.appendleft(cursor)
        cursor.is_queued = True

    def turn(self) -> Cursor | None:
        """Take the next cursor that needs something, if one does."""
        while self._queue:
            cursor = self._queue[0]
            cursor.is_queued = False
            self._queue.popleft()
            if not cursor.is_removed and cursor.need is not _NOTHING:
                return cursor
        return None
