"""Pages read once, and predicates evaluated in one pass, for all subscriptions of a process.

Subscriptions with predicates that are at the same position of an event topic get the same
page. The first one that needs it reads it, and evaluates the predicates of all. See
design 0089.
"""

import threading
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, NamedTuple

from strandline.log import Log, ReadRange
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.screening import EventScreen, Screen, sift_together
from strandline.subscriptions.selecting import Selecting
from strandline.values import Event, InvalidError, Record, Topic

_PAGE_RECORDS: Final = 1024
"""The minimal page size when several share it, however few records each may hold."""
_PAGES_KEPT: Final = 16
_RECORDS_KEPT: Final = 16_384
"""How many records, and pages, of a partition are cached for slower subscriptions."""


class PageLimits(NamedTuple):
    """The limits of a page, and whether to read only durable records."""

    records_max: int
    bytes_max: int
    durable_only: bool


class SharedPage:
    """The records of a page, and which of them each predicate matches.

    In a page that the store has selected, records that no predicate wants may be missing.
    """

    def __init__(
        self,
        records: Sequence[Record],
        screens: Iterable[Screen],
        span: tuple[int, int],
        *,
        is_selected: bool = False,
    ) -> None:
        self.records = records
        self.start: Final = span[0]
        self.end: Final = span[1]
        self._screens = tuple(screens)
        self._is_selected = is_selected
        self._lock = threading.Lock()
        self._matches: dict[EventScreen, list[int]] | None = None

    def serves(self, offset: int, screen: Screen) -> bool:
        """Whether it has all that the screen wants from `offset` on."""
        is_within = self.start <= offset < self.end
        return is_within and (not self._is_selected or screen in self._screens)

    def at(self, offset: int) -> Record:
        """Return the record at an offset in the page."""
        return self.records[self._place(offset)]

    def _place(self, offset: int) -> int:
        return bisect_left(self.records, offset, key=_offset_of)

    def wanted(self, screen: Screen, start: int, count: int) -> "WantedRecords":
        """Return the first `count` records from `start` on that match, or on which it fails."""
        with self._lock:
            if self._matches is None:
                events = [each for each in self._screens if isinstance(each, EventScreen)]
                self._matches = sift_together(events, self.records)
            found = self._matches.get(screen) if isinstance(screen, EventScreen) else None
        first = self._place(start)
        if found is None:
            return self._wanted_by(screen, first, count)
        begin = bisect_left(found, first)
        chosen = [self.records[at] for at in found[begin : begin + count]]
        is_more = begin + count < len(found)
        end = self.records[found[begin + count]].offset if is_more else self.end
        return WantedRecords([(each.offset, fresh(each)) for each in chosen], end)

    def _wanted_by(self, screen: Screen, begin: int, count: int) -> "WantedRecords":
        records = self.records[begin:]
        items: list[tuple[int, Record | InvalidError]] = []
        for record, outcome in zip(records, screen.sift(records), strict=True):
            if outcome is None:
                continue
            if len(items) == count:
                return WantedRecords(items, record.offset)
            items.append(
                (record.offset, outcome if isinstance(outcome, InvalidError) else fresh(outcome))
            )
        return WantedRecords(items, self.end)


def _offset_of(record: Record) -> int:
    return record.offset


class WantedRecords(NamedTuple):
    """Matching records by offset, and the error of each failing one, up to some offset.

    The records belong to the caller alone.
    """

    items: Sequence[tuple[int, Record | InvalidError]]
    end: int


class SharedReads:
    """The pages of one log that several subscriptions read. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._screens: dict[Topic, weakref.WeakSet[EventScreen]] = {}
        self._pages: dict[TopicPartition, deque[tuple[PageLimits, SharedPage]]] = {}

    def join(self, topic: Topic, screen: Screen) -> None:
        """Register a subscription's screen for a topic, for as long as the screen is referenced."""
        if isinstance(screen, EventScreen):
            with self._lock:
                self._screens.setdefault(topic, weakref.WeakSet()).add(screen)
                # Cached pages do not cover this predicate, or are of a dropped topic of this name.
                for place in [each for each in self._pages if each.topic == topic]:
                    del self._pages[place]

    def read(
        self,
        log: Log,
        place: TopicPartition,
        start: int,
        limits: PageLimits,
        reader: "ScreenReader",
    ) -> SharedPage:
        """Return a page from `start` on with all that a reader wants; empty if there is none yet.

        Raises as the log's `read`.
        """
        asked = limits
        with self._lock:
            # Newest first: most readers are about to read that.
            for limited, page in reversed(self._pages.get(place, ())):
                if limited == limits and page.serves(start, reader.screen):
                    return page
            screens = tuple(self._screens.get(place.topic, ()))
        if len(screens) > 1:
            # A larger page: each subscription holds only its wanted records, within its limits.
            limits = limits._replace(records_max=max(limits.records_max, _PAGE_RECORDS))
        made = _page(log, place, ReadRange(start, None, *limits), reader, screens)
        if made.end > start and len(screens) > 1:
            with self._lock:
                kept = self._pages.setdefault(place, deque(maxlen=_PAGES_KEPT))
                kept.append((asked, made))
                while sum(len(each.records) for _, each in kept) > _RECORDS_KEPT:
                    kept.popleft()
        return made


class ScreenReader(NamedTuple):
    """Reads pages for a screen, and asks the store for it."""

    screen: Screen
    selecting: Selecting


def _page(
    log: Log,
    place: TopicPartition,
    wanted: ReadRange,
    reader: ScreenReader,
    screens: tuple[EventScreen, ...],
) -> SharedPage:
    start = wanted.start
    served: tuple[Screen, ...] = screens if reader.screen in screens else (reader.screen,)
    if (selected := reader.selecting.page(place, wanted, served)) is not None:
        return SharedPage(tuple(selected.records), served, (start, selected.end), is_selected=True)
    records = tuple(log.read(*place, **wanted._asdict()))
    for expected, record in enumerate(records, start):
        assert record.offset == expected, f"a log gave {record.offset} for {expected}"
    return SharedPage(records, screens, (start, start + len(records)))


def fresh(record: Record) -> Record:
    """Return the record with its own event: a decoded payload is mutable."""
    event = record.value
    if not isinstance(event, Event):
        return record
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_us,
        record.key,
        record.tenant,
        copy(event),
    )


_of_log: "weakref.WeakKeyDictionary[Log, SharedReads]" = weakref.WeakKeyDictionary()


def shared_reads(log: Log) -> SharedReads:
    """Return the shared reads of this log object."""
    return _of_log.setdefault(log, SharedReads())
