"""Records that are delivered at a later time, ordered by that time."""

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from strandline.subscriptions.outstanding import Outstanding


class Due(NamedTuple):
    """A record that is due at a wall-clock time, in microseconds."""

    at_us: int
    partition: int
    offset: int


class Redeliveries:
    """The waiting records of a consumer. The caller holds the consumer's lock."""

    def __init__(self) -> None:
        self._heap: list[Due] = []

    def add(self, due: Due) -> None:
        """Add a record."""
        heapq.heappush(self._heap, due)

    def first(self, now_us: int, outstanding: Mapping[int, Outstanding]) -> Due | None:
        """Return the first record due by now, if there is one; drops records acked meanwhile."""
        while self._heap and self._heap[0].at_us <= now_us:
            due = self._heap[0]
            if outstanding[due.partition].is_delayed(due.offset):
                return due
            heapq.heappop(self._heap)
        return None

    def wait_s(self, now_us: int, at_most: float) -> float:
        """Return how long until the next record is due, at most `at_most`."""
        if not self._heap:
            return at_most
        return min(at_most, max(0, self._heap[0].at_us - now_us) / 1_000_000)

    def remove(self, due: Due) -> bool:
        """Remove a record, not necessarily the first; False if it is not there."""
        if due not in self._heap:
            return False
        self._heap.remove(due)
        heapq.heapify(self._heap)
        return True

    def remove_partition(self, partition: int) -> None:
        """Remove the records of a partition."""
        self._heap = [due for due in self._heap if due.partition != partition]
        heapq.heapify(self._heap)
