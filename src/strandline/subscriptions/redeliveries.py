"""Records that come at a later time, by the time at which each is due."""

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from strandline.subscriptions.outstanding import Outstanding


class Due(NamedTuple):
    """A record that comes at a time of the wall clock, in microseconds."""

    at_us: int
    partition: int
    offset: int


class Redeliveries:
    """The records of a consumer that wait. Its caller holds the consumer's lock."""

    def __init__(self) -> None:
        self._heap: list[Due] = []

    def add(self, due: Due) -> None:
        """Have a record come."""
        heapq.heappush(self._heap, due)

    def first(self, now_us: int, outstanding: Mapping[int, Outstanding]) -> Due | None:
        """Return what is due first, if that is by now; what was acked is dropped."""
        while self._heap and self._heap[0].at_us <= now_us:
            due = self._heap[0]
            if outstanding[due.partition].is_delayed(due.offset):
                return due
            heapq.heappop(self._heap)
        return None

    def wait_s(self, now_us: int, at_most: float) -> float:
        """Return how long it is until the next one is due, and no more than `at_most`."""
        if not self._heap:
            return at_most
        return min(at_most, max(0, self._heap[0].at_us - now_us) / 1_000_000)

    def remove(self, due: Due) -> bool:
        """Forget one of them, which need not be the first any more; False if there is none."""
        if due not in self._heap:
            return False
        self._heap.remove(due)
        heapq.heapify(self._heap)
        return True

    def remove_partition(self, partition: int) -> None:
        """Forget those of a partition."""
        self._heap = [due for due in self._heap if due.partition != partition]
        heapq.heapify(self._heap)
