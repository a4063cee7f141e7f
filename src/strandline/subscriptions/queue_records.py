"""What a work queue has to know of the records in its sight: their keys and times, and which
of them its predicate leaves out."""

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
    """A record, as far as it decides when it is delivered, and whether it ever is."""

    key: str | None
    due_us: int
    """When it may be delivered; 0 for at once."""
    passed_to: int = 0
    """Where the next record is that may match, if this one is left out; 0 if it is not."""


GONE: Final = QueueRecord(None, 0)
"""Stands for a record that was removed by force."""

Sight = Callable[[int], QueueRecord]
"""Returns what is known of the record at an offset."""


class QueueRecords:
    """What records are, read a page at a time, and remembered. For one thread.

    A record on which the predicate fails is not left out.
    """

    def __init__(self, log: Log, topic: Topic, screen: Screen | None = None) -> None:
        check_dense(log, topic, "a work queue")
        self._log = log
        self._topic = topic
        self._screen = screen
        self._known: OrderedDict[tuple[int, int], QueueRecord] = OrderedDict()
        self._shared = shared_reads(log)
        self._selecting = Selecting(log)
        #: Whether nothing was wanted of the last page, so that asking the store may pay.
        self._is_sparse = False
        if screen is not None:
            self._shared.join(topic, screen)

    @property
    def is_screened(self) -> bool:
        """Whether there is a predicate."""
        return self._screen is not None

    def of(self, partition: int) -> Sight:
        """Return the function from the offsets of a partition to what is known of them."""

        def look(offset: int) -> QueueRecord:
            place = partition, offset
            if place not in self._known:
                self._read(partition, offset)
            return self._known.get(place, GONE)

        return look

    def sifted(self, record: Record) -> Record | InvalidError | None:
        """Return the record, or what is left of it; the error; None if it is left out."""
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
        # As others read, so that one page serves them all.
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
