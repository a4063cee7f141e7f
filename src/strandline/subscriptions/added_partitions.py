"""Partitions that are added to a topic while it is read."""

from collections.abc import Mapping
from datetime import datetime

from strandline.log import Log, count_partitions
from strandline.log.patience import note_unavailable
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.start import StartPoint, Starts
from strandline.values import EARLIEST, Topic, UnavailableError


class AddedPartitions:
    """Adds new partitions of these topics to readers of all partitions.

    Their records were appended after the reader began, so a new partition begins at its first
    record, also with LATEST. With a consumer's name, it begins at its cursor if there is one.
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
        """Add the new partitions to an assignment; those unreadable now are added later."""
        for topic, known in tuple(self._counts.items()):
            try:
                count = count_partitions(self._log, topic)
                for partition in range(known, count):
                    assignment.add(partition, self._begin(topic, partition), topic=topic)
                    self._counts[topic] = partition + 1
            except UnavailableError:
                note_unavailable()

    def _begin(self, topic: Topic, partition: int) -> StartPoint:
        if self._consumer is None:
            return self._start
        cursor = self._log.cursor(topic, self._consumer, partition, tenant=self._tenant)
        return self._start if cursor is None else cursor
