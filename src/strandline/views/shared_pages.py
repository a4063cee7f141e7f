"""Pages read once for all the views of a log that are at the same place."""

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Final

from strandline.log import Log
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.pages import PAGE_BYTES_MAX
from strandline.subscriptions.sharing import fresh
from strandline.values import Record

PAGE_RECORDS: Final = 512
"""How many records are read at a time, and applied before others have their turn."""

_PAGES_KEPT: Final = 4


class _PageCache:
    """The latest pages of one partition, while several views read it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.views = 0
        self.pages: deque[tuple[int, Sequence[Record]]] = deque(maxlen=_PAGES_KEPT)


class SharedPages:
    """The pages of one log. Any call may be made from any thread.

    A partition that one view alone reads is read as it is, and nothing of it is kept.
    """

    def __init__(self, log: Log) -> None:
        # Each reader holds the log; this is found through it.
        self._log = weakref.ref(log)
        self._caches: dict[TopicPartition, _PageCache] = {}

    def join(self, place: TopicPartition) -> None:
        """A view reads this partition from now on. What was cached of it is dropped."""
        cache = self._caches.setdefault(place, _PageCache())
        with cache.lock:
            cache.views += 1
            cache.pages.clear()

    def leave(self, place: TopicPartition) -> None:
        """A view reads this partition no longer."""
        cache = self._caches[place]
        with cache.lock:
            cache.views -= 1
            cache.pages.clear()

    def read(self, place: TopicPartition, start: int) -> Sequence[Record]:
        """Return the records from `start` on, a page of them. Raises as the log's `read`."""
        cache = self._caches[place]
        if cache.views < 2:  # noqa: PLR2004 - Two are needed to share.
            return self._page(place, start)
        with cache.lock:
            kept = next((page for began, page in cache.pages if began == start), None)
            if kept is None:
                page = self._page(place, start)
                if page:
                    cache.pages.append((start, page))
                return page
        return [fresh(record) for record in kept]

    def _page(self, place: TopicPartition, start: int) -> Sequence[Record]:
        log = self._log()
        assert log is not None
        read = log.read(*place, start, records_max=PAGE_RECORDS, bytes_max=PAGE_BYTES_MAX)
        return list(read)


_of_log: "weakref.WeakKeyDictionary[Log, SharedPages]" = weakref.WeakKeyDictionary()


def shared_pages(log: Log) -> SharedPages:
    """Return the one for this log object."""
    return _of_log.setdefault(log, SharedPages(log))
