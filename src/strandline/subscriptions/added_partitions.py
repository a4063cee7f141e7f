"""Partitions that are added to a topic while it is read."""

from collections.abc import Mapping
from datetime import datetime

from strandline.log import Log, count_partitions
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.start import StartPoint, Starts
from strandline.values import EARLIEST, Topic, UnavailableError


class AddedPartitions:
    """Has what is added to these topics read as well, for readers of all partitions.

    What is there was appended after the reader began, so that LATEST begins at the first
    record, too. With a consumer's name, a partition begins at its cursor where it has one.
    """

    def __init__(
        self,
        log: Log,
        counts: Mapping[Topic, int],
        start: Starts,
        consumer: str | None,
        tenant: str | None,
    ) -> None:
        self._log = log
        self._counts = dict(counts)
        self._start: StartPoint = start if isinstance(start, datetime) else EARLIEST
        self._consumer = consumer
        self._tenant = tenant

    def look(self, assignment: Assignment) -> None:
        """Add the new partitions to an assignment; what cannot be read now is added later."""
        for topic, known in tuple(self._counts.items()):
            try:
                count = count_partitions(self._log, topic)
                for partition in range(known, count):
                    assignment.add(partition, self._begin(topic, partition), topic=topic)
                    self._counts[topic] = partition + 1
            except UnavailableError:
                continue

    def _begin(self, topic: Topic, partition: int) -> StartPoint:
        if self._consumer is None:
            return self._start
        cursor = self._log.cursor(topic, self._consumer, partition, tenant=self._tenant)
        return self._start if cursor is None else cursor
