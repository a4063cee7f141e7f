"""The keys and times of records that a work queue needs to know, and which of them its
predicate leaves out."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from strandline.log import Log
from strandline.log.parts import check_dense
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.pages import PAGE_BYTES_MAX
from strandline.subscriptions.screening import Screen
from strandline.subscriptions.selecting import Selecting
from strandline.subscriptions.sharing import PageLimits, ScreenReader, shared_reads
from strandline.values import InvalidError, Partition, Record, Topic
from strandline.values.delivery_time import deliver_at_us

_KEPT_MAX: Final = 16_384
_PAGE: Final = 256


class QueueRecord(NamedTuple):
    """What decides when a record is delivered, and whether."""

    key: str | None
    due_us: int
    """The time from which it may be delivered; 0 for at once."""
    passed_to: int = 0
    """If it is left out: the offset of the next record that may match; otherwise 0."""


GONE: Final = QueueRecord(None, 0)
"""Stands for a record that a forced trim removed."""

Sight = Callable[[int], QueueRecord]
"""Returns the QueueRecord at an offset."""


class QueueRecords:
    """A cache of QueueRecords, read a page at a time. For one thread.

    A record on which the predicate fails is not left out.
    """

    def __init__(self, log: Log, topic: Topic, screen: Screen | None) -> None:
        check_dense(log, topic, "a work queue")
        self._log = log
        self._topic = topic
        self._screen = screen
        self._known: OrderedDict[tuple[int, int], QueueRecord] = OrderedDict()
        self._shared = shared_reads(log)
        self._selecting = Selecting(log)
        #: Whether the last page had no wanted record, so that asking the store may be worthwhile.
        self._is_sparse = False
        if screen is not None:
            self._shared.join(topic, screen)

    @property
    def is_screened(self) -> bool:
        """Whether there is a predicate."""
        return self._screen is not None

    def of(self, partition: int) -> Sight:
        """Return a function from a partition's offsets to their QueueRecords."""

        def look(offset: int) -> QueueRecord:
            place = partition, offset
            if place not in self._known:
                self._read(partition, offset)
            return self._known.get(place, GONE)

        return look

    def sifted(self, record: Record) -> Record | InvalidError | None:
        """Return the record, or its selected part; the predicate's error; None if left out."""
        if self._screen is None:
            return record
        (outcome,) = self._screen.sift([record])
        return outcome

    def _read(self, partition: int, offset: int) -> None:
        if self._screen is None:
            for record in self._log.read(self._topic, partition, offset, records_max=_PAGE):
                self._known[partition, record.offset] = _seen(record)
        else:
            self._read_screened(partition, offset, self._screen)
        while len(self._known) > _KEPT_MAX:
            self._known.popitem(last=False)

    def _read_screened(self, partition: int, offset: int, screen: Screen) -> None:
        place = TopicPartition(self._topic, Partition(partition))
        if self._is_sparse:
            wanted_at = self._selecting.first_wanted(place, offset, screen)
            if wanted_at > offset:
                self._leave_out(partition, offset, offset + 1, wanted_at)
                return
        # The same limits as other readers, so that they can share pages.
        limits = PageLimits(self._log.queue_depth, PAGE_BYTES_MAX, durable_only=False)
        reader = ScreenReader(screen, self._selecting)
        page = self._shared.read(self._log, place, offset, limits, reader)
        wanted = page.wanted(screen, offset, max(1, len(page.records)))
        following = offset
        for at, item in wanted.items:
            self._leave_out(partition, following, at, at)
            record = page.at(at) if isinstance(item, InvalidError) else item
            self._known[partition, at] = _seen(record)
            following = at + 1
        self._leave_out(partition, following, wanted.end, wanted.end)
        self._is_sparse = not wanted.items

    def _leave_out(self, partition: int, start: int, end: int, passed_to: int) -> None:
        for offset in range(start, end):
            self._known[partition, offset] = QueueRecord(None, 0, passed_to)


def _seen(record: Record) -> QueueRecord:
    return QueueRecord(record.key, deliver_at_us(record) or 0)
