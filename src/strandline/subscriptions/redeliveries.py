"""Nacked records, by the time at which each is due again."""

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from strandline.subscriptions.outstanding import Outstanding


class Due(NamedTuple):
    """A record that comes again."""

    at: float
    partition: int
    offset: int


class Redeliveries:
    """The nacked records of a consumer. Its caller holds the consumer's lock."""

    def __init__(self) -> None:
        self._heap: list[Due] = []

    def add(self, due: Due) -> None:
        """Have a record come again."""
        heapq.heappush(self._heap, due)

    def first(self, now: float, outstanding: Mapping[int, Outstanding]) -> Due | None:
        """Return what is due first, if that is by now; what was acked is dropped."""
        while self._heap and self._heap[0].at <= now:
            due = self._heap[0]
            if outstanding[due.partition].is_delayed(due.offset):
                return due
            heapq.heappop(self._heap)
        return None

    def next_at(self, at_most: float) -> float:
        """Return when the next one is due, or the time given if there is none."""
        return self._heap[0].at if self._heap else at_most

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
