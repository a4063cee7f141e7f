"""Counts of deliveries, stored in the log, so that they survive a crash of the consumer."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from strandline.log import Log, count_partitions
from strandline.subscriptions.outstanding import Attempts
from strandline.values import Event, InvalidError, Marks, Record, Topic
from strandline.values.internal_topics import DELIVERIES_PREFIX

NOTES_KEPT: Final = 128
"""About how many notes of a partition are kept; only the last one counts."""

_LATE_NOTES_MAX: Final = 8
"""How many notes a member can write, at most, before it learns that it lost a partition."""


class DeliveryCounts:
    """One consumer's notes, in a separate internal topic with the same partitions.

    The last note of a partition replaces all earlier ones, so that storage is bounded. Notes
    are written, not synced: a power loss costs counts, not records.
    """

    def __init__(self, log: Log, topic: Topic, consumer: str, tenant: str | None) -> None:
        self._log = log
        self._topic = topic
        self._consumer = consumer
        #: For each partition: the id of the seek, or registration, that set its cursor.
        self._seek_ids: dict[int, str] = {}
        whose = f"{tenant or topic.tenant or ''}/{consumer}"
        digest = hashlib.sha256(whose.encode()).hexdigest()[:32]
        self._name = f"{DELIVERIES_PREFIX}{topic.id}.{digest}"
        self._notes: Topic | None = None
        #: The known number of partitions of the topic with the notes.
        self._partitions = 0

    def load(self, partition: int, cursor: int, seek_id: UUID | None) -> dict[int, Attempts]:
        """Return the attempts at records from `cursor` on, which this seek has set.

        Empty if the cursor lies before where it was at the last note: a caller has moved it
        back, to read the records again. Also empty for a consumer that was deleted, and for
        notes from before a seek.
        """
        self._follow(partition, seek_id)
        try:
            self._notes = self._log.topic(self._name, tenant=self._topic.tenant)
        except InvalidError:
            return {}
        if partition >= count_partitions(self._log, self._notes):
            return {}
        marks = self._log.marks(self._notes, partition)
        if marks.low == marks.high:
            return {}
        last = self._last(self._notes, partition, marks)
        if last is None or cursor < last.payload["floor"]:
            return {}
        # Notes of earlier versions have no charges.
        charges = {offset: delay for offset, *delay in last.payload.get("charges", ())}
        found = {}
        for offset, count in last.payload["counts"]:
            if offset >= cursor:
                alone, failed = charges.get(offset, (0, 0))
                found[offset] = Attempts(count - alone - failed, alone, failed)
        for start, end in last.payload.get("runs", ()):
            for offset in range(max(start, cursor), end):
                found[offset] = Attempts(shared=1)
        return found

    def restart(self, partition: int, floor: int, generation: int, seek_id: UUID | None) -> None:
        """Store a note without attempts after a seek: earlier versions' notes name no seek."""
        self._follow(partition, seek_id)
        self.store(partition, floor, {}, generation)

    def store(
        self,
        partition: int,
        floor: int,
        attempts: Mapping[int, Attempts],
        generation: int = 0,
        runs: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Replace the attempts of the last note. Written when this returns.

        Each record of the `runs`, [start, end), was delivered once, together with others.
        """
        note: dict[str, object] = {
            "consumer": self._consumer,
            "floor": floor,
            "counts": [[offset, each.count] for offset, each in attempts.items()],
            "charges": [
                [offset, each.alone, each.failed]
                for offset, each in attempts.items()
                if each.charged
            ],
        }
        if runs:
            note["runs"] = [list(each) for each in runs]
        if generation:
            note["generation"] = generation
        if seek_id := self._seek_ids.get(partition):
            note["seek"] = seek_id
        kept = self._kept(partition)
        receipt = self._log.append(kept, Event("deliveries", note), partition=partition)
        if receipt.offset and receipt.offset % NOTES_KEPT == 0:
            self._log.trim(kept, partition, receipt.offset)

    def _follow(self, partition: int, seek_id: UUID | None) -> None:
        self._seek_ids[partition] = "" if seek_id is None else str(seek_id)

    def _last(self, notes: Topic, partition: int, marks: Marks) -> Record | None:
        """Return the last note of the latest generation: a member that lost it may still write."""
        start = max(marks.low, marks.high - _LATE_NOTES_MAX)
        seek_id = self._seek_ids[partition]
        found = [
            each
            for each in self._log.read(notes, partition, start, marks.high)
            # Notes of earlier versions have no seek id.
            if not seek_id or each.payload.get("seek", seek_id) == seek_id
        ]
        return max(
            found, key=lambda each: (each.payload.get("generation", 0), each.offset), default=None
        )

    def _kept(self, partition: int) -> Topic:
        if self._notes is None:
            partitions = count_partitions(self._log, self._topic)
            self._notes = self._log.create_topic(
                self._name, partitions=partitions, tenant=self._topic.tenant, internal=True
            )
            self._partitions = partitions
        if partition >= self._partitions:
            self._partitions = count_partitions(self._log, self._topic)
            self._log.add_partitions(self._notes, self._partitions)
        return self._notes
