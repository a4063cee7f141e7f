"""Pages read once, and predicates evaluated in one pass, for the subscriptions of a process.

Subscriptions with predicates on one topic of events that are at the same place get the same
page. The first of them that needs it reads it, and evaluates the predicates of all. See
design 0089.
"""

import threading
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, NamedTuple

from strandline.log import Log
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.screening import EventScreen, Screen, sift_together
from strandline.values import Event, InvalidError, Record, Topic

_PAGE_RECORDS: Final = 1024
"""How many records are read for several at once, however few each of them may hold."""
_PAGES_KEPT: Final = 16
_RECORDS_KEPT: Final = 16_384
"""How many records, and pages, of a partition are kept for those that are behind."""


class PageLimits(NamedTuple):
    """How much a page holds, and whether all of it is durable."""

    records_max: int
    bytes_max: int
    durable_only: bool


class SharedPage:
    """The records of a page, and which of them each predicate matches."""

    def __init__(self, records: Sequence[Record], screens: Iterable[EventScreen]) -> None:
        self.records = records
        self._screens = tuple(screens)
        self._lock = threading.Lock()
        self._matches: dict[EventScreen, list[int]] | None = None

    def covers(self, offset: int) -> bool:
        """Whether the record at `offset` is in it."""
        return self.records[0].offset <= offset <= self.records[-1].offset

    def wanted(self, screen: Screen, start: int, count: int) -> "WantedRecords":
        """Return the first `count` records from `start` on that match, or on which it fails."""
        first = self.records[0].offset
        with self._lock:
            if self._matches is None:
                self._matches = sift_together(self._screens, self.records)
            found = self._matches.get(screen) if isinstance(screen, EventScreen) else None
        if found is None:
            return self._wanted_by(screen, start - first, count)
        begin = bisect_left(found, start - first)
        items = [(first + at, fresh(self.records[at])) for at in found[begin : begin + count]]
        is_more = begin + count < len(found)
        end = first + (found[begin + count] if is_more else len(self.records))
        return WantedRecords(items, end)

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
        return WantedRecords(items, records[-1].offset + 1)


class WantedRecords(NamedTuple):
    """Records that match, by offset, and the error of each that fails, up to some offset.

    The records are the caller's own.
    """

    items: Sequence[tuple[int, Record | InvalidError]]
    end: int


class SharedReads:
    """The pages of one log that several subscriptions read. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._screens: dict[Topic, weakref.WeakSet[EventScreen]] = {}
        self._pages: dict[TopicPartition, deque[tuple[PageLimits, SharedPage]]] = {}

    def join(self, topic: Topic, screen: Screen) -> None:
        """A subscription reads the topic with this screen, for as long as it holds it."""
        if isinstance(screen, EventScreen):
            with self._lock:
                self._screens.setdefault(topic, weakref.WeakSet()).add(screen)
                # What was kept knows nothing of its predicate, or of a topic of the same name.
                for place in [each for each in self._pages if each.topic == topic]:
                    del self._pages[place]

    def read(self, log: Log, place: TopicPartition, start: int, limits: PageLimits) -> SharedPage:
        """Return a page with the record at `start`; empty if there is none yet.

        Raises as the log's `read`.
        """
        asked = limits
        with self._lock:
            # The newest is the one that most are about to read.
            for limited, page in reversed(self._pages.get(place, ())):
                if limited == limits and page.covers(start):
                    return page
            screens = tuple(self._screens.get(place.topic, ()))
        if len(screens) > 1:
            # Each of them holds what it wants of it, and no more than it may.
            limits = limits._replace(records_max=max(limits.records_max, _PAGE_RECORDS))
        records = tuple(log.read(*place, start, **limits._asdict()))
        for expected, record in enumerate(records, start):
            assert record.offset == expected, f"a log gave {record.offset} for {expected}"
        made = SharedPage(records, screens)
        if records and len(screens) > 1:
            with self._lock:
                kept = self._pages.setdefault(place, deque(maxlen=_PAGES_KEPT))
                kept.append((asked, made))
                while sum(len(each.records) for _, each in kept) > _RECORDS_KEPT:
                    kept.popleft()
        return made


def fresh(record: Record) -> Record:
    """Return the record with an event of its own: a decoded payload can be changed."""
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
    """Return the one for this log object."""
    return _of_log.setdefault(log, SharedReads())
