"""How often records were delivered, kept in the log: it outlives a consumer that dies."""

import hashlib
from collections.abc import Mapping
from typing import Final

from strandline.log import Log
from strandline.values import Event, InvalidError, Topic

NOTES_KEPT: Final = 128
"""About how many notes of a partition are kept; the last one counts."""


class DeliveryCounts:
    """One consumer's notes, in an internal topic of its own with a partition for each.

    The last note of a partition is all there is to know of it, so that what is kept is
    bounded. A note is written, not synced: a loss of power costs counts, not records.
    """

    def __init__(self, log: Log, topic: Topic, consumer: str, tenant: str | None) -> None:
        self._log = log
        self._topic = topic
        self._consumer = consumer
        whose = f"{tenant or topic.tenant or ''}/{consumer}"
        digest = hashlib.sha256(whose.encode()).hexdigest()[:32]
        self._name = f"__strandline.deliveries.{topic.id}.{digest}"
        self._notes: Topic | None = None

    def load(self, partition: int, cursor: int) -> dict[int, int]:
        """Return the counts of records from `cursor` on.

        There are none if the cursor lies before where it was at the last note: somebody
        has gone back, and wants the records anew.
        """
        try:
            self._notes = self._log.topic(self._name, tenant=self._topic.tenant)
        except InvalidError:
            return {}
        marks = self._log.marks(self._notes, partition)
        if marks.low == marks.high:
            return {}
        (last,) = self._log.read(self._notes, partition, marks.high - 1, marks.high)
        if cursor < last.payload["floor"]:
            return {}
        return {offset: count for offset, count in last.payload["counts"] if offset >= cursor}

    def store(self, partition: int, floor: int, counts: Mapping[int, int]) -> None:
        """Put these counts in place of those of the last note. Written when this returns."""
        note = {
            "consumer": self._consumer,
            "floor": floor,
            "counts": [[offset, count] for offset, count in counts.items()],
        }
        kept = self._kept()
        receipt = self._log.append(kept, Event("deliveries", note), partition=partition)
        if receipt.offset and receipt.offset % NOTES_KEPT == 0:
            self._log.trim(kept, partition, receipt.offset)

    def _kept(self) -> Topic:
        if self._notes is None:
            partitions = self._log.describe_topic(self._topic).settings.partitions
            self._notes = self._log.create_topic(
                self._name, partitions=partitions, tenant=self._topic.tenant, internal=True
            )
        return self._notes
