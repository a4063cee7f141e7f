"""Pages read once for all views of a log that are at the same position."""

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
"""How many records are read and applied before other partitions have their turn."""

_PAGES_KEPT: Final = 4


class _PageCache:
    """The latest pages of one partition, while several views read it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.views = 0
        self.pages: deque[tuple[int, Sequence[Record]]] = deque(maxlen=_PAGES_KEPT)


class SharedPages:
    """The shared pages of one log. Any thread may use it.

    A partition that only one view reads is read directly, and not cached.
    """

    def __init__(self, log: Log) -> None:
        # Weakly: readers hold the log, and this object is found through it.
        self._log = weakref.ref(log)
        self._caches: dict[TopicPartition, _PageCache] = {}

    def join(self, place: TopicPartition) -> None:
        """Register a view that reads this partition. Drops what was cached of it."""
        cache = self._caches.setdefault(place, _PageCache())
        with cache.lock:
            cache.views += 1
            cache.pages.clear()

    def leave(self, place: TopicPartition) -> None:
        """Unregister a view from this partition."""
        cache = self._caches[place]
        with cache.lock:
            cache.views -= 1
            cache.pages.clear()

    def read(self, place: TopicPartition, start: int) -> Sequence[Record]:
        """Return a page of records from `start` on. Raises as the log's `read`."""
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
    """Return the shared pages of this log object."""
    return _of_log.setdefault(log, SharedPages(log))
