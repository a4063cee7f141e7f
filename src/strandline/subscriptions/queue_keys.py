"""The keys of the records that a work queue has in sight."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from strandline.log import Log
from strandline.values import Topic

_KEPT_MAX: Final = 16_384
_PAGE: Final = 256


class QueueKeys:
    """Which key a record has, read a page at a time, and remembered. For one thread."""

    def __init__(self, log: Log, topic: Topic) -> None:
        self._log = log
        self._topic = topic
        self._known: OrderedDict[tuple[int, int], str | None] = OrderedDict()

    def of(self, partition: int) -> Callable[[int], str | None]:
        """Return the function from the offsets of a partition to keys."""

        def key_of(offset: int) -> str | None:
            place = partition, offset
            if place not in self._known:
                self._read(partition, offset)
            return self._known[place]

        return key_of

    def _read(self, partition: int, offset: int) -> None:
        for record in self._log.read(self._topic, partition, offset, records_max=_PAGE):
            self._known[partition, record.offset] = record.key
        while len(self._known) > _KEPT_MAX:
            self._known.popitem(last=False)
