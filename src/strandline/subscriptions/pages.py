"""Reads what the cursors need, a page at a time, and returns items one by one."""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import Any, Final

from strandline.clock import Clock
from strandline.log import Hint, Log, Watch
from strandline.log.patience import note_unavailable
from strandline.subscriptions.cursor import Cursor, Cursors, Need, TopicPartition
from strandline.subscriptions.following import Following
from strandline.subscriptions.markers import Marker
from strandline.subscriptions.screening import FEW_RECORDS, FailedRecord, Screen
from strandline.subscriptions.selecting import Selecting
from strandline.subscriptions.sharing import PageLimits, ScreenReader, fresh, shared_reads
from strandline.values import InvalidError, Record, Topic, UnavailableError

POLL_S: Final = 1.0
"""How long until a partition is examined without a hint, or again after a failed read."""

PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The size of a page, unless its first record alone is larger."""


# Calling a named tuple's class is slow, and so is looking up an enumeration's members.
_new: Any = tuple.__new__
_EMIT_MARKER: Final = Need.EMIT_MARKER
_READ: Final = Need.READ
_NOTHING: Final = Need.NOTHING


class Pause(Enum):
    """Why there is no item yet, although there may be one without waiting."""

    SKIPPED = auto()
    """There were records, but none that the predicate selects."""
    HISTORY = auto()
    """Older records have to be read, which may block: call `fill`."""


SKIPPED: Final = Pause.SKIPPED
HISTORY: Final = Pause.HISTORY


class Pages:
    """Takes the next item of any partition. Never waits.

    One page is in memory at a time. Partitions take turns, a page each. With screens, one for
    each topic, a record that is not wanted is skipped: its cursor moves as if it had been
    delivered.
    """

    def __init__(
        self,
        log: Log,
        cursors: Cursors,
        watch: Watch,
        lock: threading.RLock,
        clock: Clock,
        *,
        records_max: int,
        durable_only: bool,
        screens: Mapping[Topic, Screen] | None,
        sparse: Collection[Topic],
        delivers_failed: bool,
        is_remote: bool,
        on_poll: Callable[[], None] | None,
    ) -> None:
        self._log = log
        self._cursors = cursors
        self._watch = watch
        self._lock = lock
        self._clock = clock
        self._records_max = records_max
        self._durable_only = durable_only
        self._screens = screens
        #: The topics with gaps in their offsets, which are skipped like unwanted records.
        self._sparse = sparse
        #: Whether to return a record on which a predicate fails as an item; otherwise raise.
        self._delivers_failed = delivers_failed
        #: Whether every look at the log is a network request.
        self._is_remote = is_remote
        #: Called before the first look of each poll that may block.
        self._on_poll = on_poll
        self._is_polled = True
        #: How many cursors are to be served before the current poll is over.
        self._turns_left = 0
        self._following: Following | None = None
        if not durable_only:
            self._following = Following(log, watch, clock, records_max=records_max)
        self._shared = shared_reads(log)
        self._selecting = Selecting(log)
        #: Whether the last page had no wanted record, so that asking the store may be worthwhile.
        self._is_sparse = False
        for topic, screen in (screens or {}).items():
            self._shared.join(topic, screen)
        self._page: deque[Record | FailedRecord] = deque()
        """With screens: only the records that match, and those on which the predicate fails."""
        self._page_end: int | None = None
        """With screens or gaps: the end of the buffered page, also if the page is empty."""
        self._cursor: Cursor | None = None
        self._poll_at = clock.monotonic() + POLL_S
        self._is_filling = False

    @property
    def is_empty(self) -> bool:
        """Whether a page has to be read before the next item."""
        return not self._page and self._page_end is None

    @property
    def is_filling(self) -> bool:
        """Whether a thread is reading a page of older records."""
        return self._is_filling

    def fill(self) -> None:
        """Read the page of older records that `take` asked for; the next `take` uses it."""
        with self._lock:
            try:
                self._is_filling = True
                self._read_history()
            except BaseException:
                self._drop_page()
                self._cursors.doubt()
                raise
            finally:
                self._is_filling = False

    def take(self, *, reads_history: bool = True) -> Record | FailedRecord | Marker | Pause | None:
        """Return the next item; None if no partition has one.

        SKIPPED after a page without wanted records, so that the caller can do other work during
        a long history without a match. HISTORY if more than recent records have to be read,
        unless this call may do that itself.
        """
        with self._lock:
            try:
                return self._next_item(reads_history=reads_history)
            except BaseException:
                # An interrupt may have come between updating the page and its cursor. The cursor is
                # right, so the page is read again.
                self._drop_page()
                self._cursors.doubt()
                raise

    def take_ready(self) -> Record | FailedRecord | None:
        """Return the next item of the buffered page; None if `take` must be called."""
        page = self._page
        if not page or self._is_filling:
            # The lock may be held during a whole read.
            return None
        with self._lock:
            cursor = self._cursor
            if not page or cursor is None or cursor.is_removed or cursor.markers:
                return None
            try:
                if self._page_end is not None:
                    return self._take_wanted(cursor, self._page_end)
                record: Any = page.popleft()
                cursor.deliver(record.offset)
                if not page:
                    self._cursors.queue(cursor)
            except BaseException:
                self._drop_page()
                self._cursors.doubt()
                raise
            return record  # type: ignore[no-any-return]

    def take_many(self, most: int) -> list[Record]:
        """Return up to `most` records of the buffered page; none if `take` must be called."""
        with self._lock:
            cursor, page = self._cursor, self._page
            if cursor is None or cursor.is_removed or cursor.markers or self._page_end is not None:
                return []
            taken: list[Any] = [page[n] for n in range(min(most, len(page)))]
            if taken:
                assert taken[0].offset == cursor.next
                cursor.deliver_many(len(taken))
                for _ in taken:
                    page.popleft()
                if not page:
                    self._cursors.queue(cursor)
            return taken

    def wait_at_end(self, deadline: float | None) -> bool:
        """Wait for new records and read them; False if the caller must wait on the watch.

        Call it when nothing was left to take. The next `take` returns the records, or looks.
        """
        following, cursor = self._following, self._cursors.only()
        if following is None:
            return False
        try:
            if cursor is None or cursor.fault is not None or not following.begin(cursor):
                return self.leave_end()
            if records := self._wait_for(following, self.wait_s(deadline)):
                self._put(cursor, records)
        except BaseException:
            following.end()
            raise
        return True

    async def wait_at_end_on_loop(self, deadline: float | None) -> bool:
        """Do what `wait_at_end` does on the running event loop."""
        following, cursor = self._following, self._cursors.only()
        if following is None:
            return False
        if cursor is None or cursor.fault is not None or not following.begin_on_loop(cursor):
            return self.leave_end()
        try:
            if records := await self._wait_on_loop(following, self.wait_s(deadline)):
                self._put(cursor, records)
        except BaseException:
            following.end()
            raise
        return True

    def follow_on(self) -> Record | FailedRecord | None:
        """Wait and take, if a follower waits already; None if `take` must be called."""
        if (followed := self._followed()) is None:
            return None
        following, cursor, left_s = followed
        records = self._wait_for(following, left_s)
        return self._take_first(cursor, records) if records else None

    async def follow_on_loop(self) -> Record | FailedRecord | None:
        """Do what `follow_on` does on the running event loop."""
        if (followed := self._followed()) is None or not followed[0].is_on_loop:
            return None
        following, cursor, left_s = followed
        records = await self._wait_on_loop(following, left_s)
        return self._take_first(cursor, records) if records else None

    def _followed(self) -> tuple[Following, Cursor, float] | None:
        """Return the follower, its cursor and the time left, if nothing else is needed."""
        following, cursor = self._following, self._cursors.only()
        if following is None or cursor is None or following.cursor is not cursor:
            return None
        left_s = self._poll_at - self._clock.monotonic()
        is_due = left_s <= 0 or cursor.need is not _NOTHING
        return None if is_due else (following, cursor, left_s)

    # Without records, the next take looks. If an interrupt loses some, the follower is ahead of
    # its cursor, and ends with the next wait.

    def _wait_for(self, following: Following, timeout_s: float) -> list[Record] | None:
        records = None
        try:
            records = following.wait(timeout_s)
        finally:
            if not records:
                self.look_everywhere()
        return records

    async def _wait_on_loop(self, following: Following, timeout_s: float) -> list[Record] | None:
        records = None
        try:
            records = await following.wait_on_loop(timeout_s)
        finally:
            if not records:
                self.look_everywhere()
        return records

    def _take_first(self, cursor: Cursor, records: list[Record]) -> Record | FailedRecord | None:
        """Return the first of these records; buffer the others."""
        if len(records) > 1 or self._screens is not None:
            self._put(cursor, records)
            return self.take_ready()
        record: Any = records[0]
        with self._lock:
            is_next = cursor.next == record.offset and not cursor.markers
            if cursor.is_removed or not is_next or not self.is_empty:
                return None
            cursor.deliver(record.offset)
            self._cursors.queue(cursor)
        return record  # type: ignore[no-any-return]

    def close(self) -> None:
        """Release what it waits on at the end. From any thread."""
        if self._following is not None:
            self._following.close()

    def leave_end(self) -> bool:
        """Wait on the watch from now on; return whether that changed, and a look is due."""
        is_due = self._following is not None and self._following.end()
        if is_due:
            self.look_everywhere()
        return is_due

    def _put(self, cursor: Cursor, records: list[Record]) -> None:
        with self._lock:
            if cursor.is_removed or not self.is_empty or cursor.next != records[0].offset:
                return
            try:
                cursor.hint(records[-1].offset + 1)
                if self._screens is None:
                    self._page.extend(records)
                elif len(records) <= FEW_RECORDS:
                    self._put_wanted(self._screens[cursor.place.topic], records)
                else:
                    # Read it as a page, whose evaluation all subscriptions share.
                    self._cursors.queue(cursor)
                    return
                self._cursor = cursor
            except BaseException:
                self._drop_page()
                self._cursors.doubt()
                raise

    def _put_wanted(self, screen: Screen, records: list[Record]) -> None:
        for record, outcome in zip(records, screen.sift(records), strict=True):
            if isinstance(outcome, InvalidError):
                self._page.append(FailedRecord(record, outcome))
            elif outcome is not None:
                self._page.append(outcome)
        self._page_end = records[-1].offset + 1

    def on_hints(self, hints: Collection[Hint]) -> None:
        """Process the hints of one wait. If there are none, the next take looks everywhere."""
        if not hints:
            self.look_everywhere()
            return
        with self._lock:
            for topic, partition, end in hints:
                self._cursors.hint(_new(TopicPartition, (topic, partition)), end)

    def look_everywhere(self) -> None:
        """Have the next take look at all partitions."""
        self._turns_left, self._poll_at = 0, self._clock.monotonic()

    def wait_s(self, deadline: float | None) -> float:
        """Return how long to wait: until the next poll, or the deadline."""
        due = self._poll_at if deadline is None else min(self._poll_at, deadline)
        return max(0.0, due - self._clock.monotonic())

    def _next_item(self, *, reads_history: bool) -> Record | FailedRecord | Marker | Pause | None:
        while True:
            if (self._page or self._page_end is not None) and (item := self._take_buffered()):
                return item
            self._poll()
            cursor = self._cursors.turn()
            if cursor is None:
                self._end_turn(0)
                return None
            if not reads_history and self._may_block(cursor):
                self._cursors.put_back(cursor)
                return HISTORY
            if marker := self._serve(cursor):
                return marker

    def _read_history(self) -> None:
        if not self.is_empty or (cursor := self._cursors.turn()) is None:
            return
        if cursor.need is _EMIT_MARKER:
            self._cursors.put_back(cursor)
        else:
            self._serve(cursor)

    def _may_block(self, cursor: Cursor) -> bool:
        """Whether serving the cursor may need more than what is in this machine's memory."""
        need = cursor.need
        if self._is_remote:
            return need is not _EMIT_MARKER
        return need is _READ and not cursor.is_at_tail

    def _take_buffered(self) -> Record | FailedRecord | Marker | Pause | None:
        cursor = self._cursor
        if cursor is None:
            return None
        if cursor.is_removed:
            self._drop_page()
            return None
        if cursor.markers:
            return cursor.emit_marker()
        if self._page_end is not None:
            return self._take_screened(cursor)
        record: Any = self._page.popleft()
        cursor.deliver(record.offset)
        if not self._page:
            self._cursors.queue(cursor)
        return record  # type: ignore[no-any-return]

    def _take_screened(self, cursor: Cursor) -> Record | FailedRecord | Pause:
        """Return the next record that matches, after moving the cursor past those before it."""
        assert self._page_end is not None
        if not self._page:
            cursor.pass_over(self._page_end)
            self._page_end = None
            self._cursors.queue(cursor)
            return SKIPPED
        return self._take_wanted(cursor, self._page_end)

    def _take_wanted(self, cursor: Cursor, page_end: int) -> Record | FailedRecord:
        item = self._page[0]
        cursor.pass_over(item.offset)
        if isinstance(item, FailedRecord) and not self._delivers_failed:
            raise item.error
        self._page.popleft()
        cursor.deliver(item.offset)
        if cursor.next == page_end:
            self._page_end = None
            self._cursors.queue(cursor)
        return item

    def _drop_page(self) -> None:
        self._page.clear()
        self._page_end = None

    def _poll(self) -> None:
        if not self._turns_left and (now := self._clock.monotonic()) >= self._poll_at:
            self._poll_at = now + POLL_S
            self._is_polled = False
            self._cursors.doubt()
            self._turns_left = len(self._cursors)

    def _end_turn(self, left: int) -> None:
        # The next poll is later than the end of this one, which may have taken long.
        if self._turns_left and left <= 0:
            self._poll_at = max(self._poll_at, self._clock.monotonic() + POLL_S)
        self._turns_left = max(left, 0)

    def _serve(self, cursor: Cursor) -> Marker | None:
        need = cursor.need
        if need is _EMIT_MARKER:
            marker = cursor.emit_marker()
            self._cursors.queue(cursor)
            return marker
        try:
            if need is _READ:
                self._read(cursor)
            else:
                self._look_at(cursor)
            cursor.fault = None
        except UnavailableError as error:
            # Not queued: other partitions are served until the next poll, which is not at once.
            cursor.fault = error
            note_unavailable()
            self._poll_at = self._clock.monotonic() + POLL_S
        self._end_turn(self._turns_left - 1)
        return None

    def _look_at(self, cursor: Cursor) -> None:
        if self._on_poll is not None and not self._is_polled:
            self._is_polled = True
            self._on_poll()
        marks = self._log.marks(*cursor.place)
        cursor.look(marks.durable if self._durable_only else marks.high)
        if cursor.need is not _NOTHING:
            self._cursors.queue(cursor)

    def _read(self, cursor: Cursor) -> None:
        limits = PageLimits(self._records_max, PAGE_BYTES_MAX, self._durable_only)
        if cursor.place.topic in self._sparse:
            self._read_sparse(cursor, limits)
        elif self._screens is None:
            self._page.extend(self._log.read(*cursor.place, cursor.next, **limits._asdict()))
        else:
            self._read_screened(cursor, self._screens[cursor.place.topic], limits)
        self._cursor = cursor
        if self.is_empty:
            cursor.find_nothing()
            self._cursors.queue(cursor)
        if len(self._cursors) > 1:
            # A partition that never runs out of records must not delay other partitions' hints.
            self._check_marks()

    def _read_sparse(self, cursor: Cursor, limits: PageLimits) -> None:
        """Read the next records; move to the end if there are only gaps before it."""
        marks = self._log.marks(*cursor.place)
        end = marks.durable if limits.durable_only else marks.high
        if end <= cursor.next:
            return
        read = self._log.read(*cursor.place, cursor.next, end, **limits._asdict())
        self._page.extend(read)
        self._page_end = self._page[-1].offset + 1 if self._page else end

    def _read_screened(self, cursor: Cursor, screen: Screen, limits: PageLimits) -> None:
        if self._is_sparse and not limits.durable_only:
            wanted_at = self._selecting.first_wanted(cursor.place, cursor.next, screen)
            if wanted_at > cursor.next:
                self._page_end = wanted_at
                return
        reader = ScreenReader(screen, self._selecting)
        page = self._shared.read(self._log, cursor.place, cursor.next, limits, reader)
        if page.end == page.start:
            return
        wanted = page.wanted(screen, cursor.next, limits.records_max)
        for offset, item in wanted.items:
            if isinstance(item, InvalidError):
                self._page.append(FailedRecord(fresh(page.at(offset)), item))
            else:
                self._page.append(item)
        self._page_end = wanted.end
        self._is_sparse = not wanted.items

    def _check_marks(self) -> None:
        if hints := self._watch.wait(0.0):
            self.on_hints(hints)
