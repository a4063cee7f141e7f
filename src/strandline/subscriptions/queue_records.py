"""What a work queue has to know of the records in its sight: their keys and times."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from strandline.log import Log
from strandline.values import Topic
from strandline.values.delivery_time import deliver_at_us

_KEPT_MAX: Final = 16_384
_PAGE: Final = 256


class QueueRecord(NamedTuple):
    """A record, as far as it decides when it is delivered."""

    key: str | None
    due_us: int
    """When it may be delivered; 0 for at once."""


GONE: Final = QueueRecord(None, 0)
"""Stands for a record that was removed by force."""

Sight = Callable[[int], QueueRecord]
"""Returns what is known of the record at an offset."""


class QueueRecords:
    """Which key and time a record has, read a page at a time, and remembered. For one thread."""

    def __init__(self, log: Log, topic: Topic) -> None:
        self._log = log
        self._topic = topic
        self._known: OrderedDict[tuple[int, int], QueueRecord] = OrderedDict()

    def of(self, partition: int) -> Sight:
        """Return the function from the offsets of a partition to what is known of them."""

        def look(offset: int) -> QueueRecord:
            place = partition, offset
            if place not in self._known:
                self._read(partition, offset)
            return self._known.get(place, GONE)

        return look

    def _read(self, partition: int, offset: int) -> None:
        for record in self._log.read(self._topic, partition, offset, records_max=_PAGE):
            found = QueueRecord(record.key, deliver_at_us(record) or 0)
            self._known[partition, record.offset] = found
        while len(self._known) > _KEPT_MAX:
            self._known.popitem(last=False)
