"""The argument of a trigger's function for a delivery, and whether it is called at all."""

import threading
from collections.abc import Hashable, Sequence

from strandline.log import Log
from strandline.triggers.entry import ActiveDelivery
from strandline.triggers.filtering import wanted
from strandline.triggers.handled_keys import HandledKey, HandledKeys, digest_of
from strandline.triggers.settling import Verdict
from strandline.triggers.trigger import Trigger
from strandline.values import Record, Topic


class Subjects:
    """Reads and selects the records of one trigger, and has the keys that it has handled.

    `read` is for the loop's thread, because it calls the user's `dedupe_key`; any thread may
    call the other methods.
    """

    def __init__(self, log: Log, topic: Topic, trigger: Trigger) -> None:
        self._dedupe_key = trigger.dedupe_key
        self._wanted = wanted(log, topic, trigger.where)
        self.keys: HandledKeys | None = None
        if trigger.dedupe_key is not None:
            window_us = round(trigger.dedupe_window_s * 1_000_000)
            self.keys = HandledKeys(log, topic, trigger.name, window_us)
        self._looking = threading.Lock()
        self.has_new_partitions: bool = False
        """Whether another process may have handled keys that this one has not read yet."""

    def read(self, entry: ActiveDelivery, carrier: Record | None = None) -> None:
        """Set the function's record and the de-duplication key of a delivery, or the error."""
        entry.record, entry.key, entry.error = None, None, None
        try:
            if carrier is None:
                carrier = entry.source.read(entry.carrier.partition, entry.carrier.offset)
            subject = entry.source.subject(carrier)
            entry.record = None if subject is None else self._wanted(subject)
            if entry.record is not None and self.keys is not None:
                entry.key = self._key_of(entry.record)
        except Exception as error:  # noqa: BLE001 - A failure of the trigger, as those of its function.
            entry.error = error

    def restore(self, entry: ActiveDelivery) -> None:
        """Read the record again whose value was dropped while it waited."""
        try:
            carrier = entry.source.read(entry.carrier.partition, entry.carrier.offset)
            subject = entry.source.subject(carrier)
            entry.record = None if subject is None else self._wanted(subject)
        except Exception as error:  # noqa: BLE001 - As above.
            entry.error = error

    def verdict_of(self, entry: ActiveDelivery) -> Verdict | None:
        """Return the verdict of a record that needs no call; None if it needs one.

        Raises the error with which reading the record has failed.
        """
        if entry.error is not None:
            raise entry.error
        if entry.record is None:
            return Verdict.UNWANTED
        if entry.key is not None and self._is_handled(*entry.key):
            return Verdict.REPEATED
        return None

    def note_handled(self, entry: ActiveDelivery) -> None:
        """Register the record's key as handled."""
        if entry.key is not None and self.keys is not None:
            self.keys.add(entry.key)

    def _is_handled(self, key: bytes, timestamp_us: int) -> bool:
        assert self.keys is not None
        with self._looking:
            if self.has_new_partitions:
                # Before the assignment another process handled records of the partition.
                self.has_new_partitions = False
                self.keys.catch_up()
        return self.keys.is_handled(key, timestamp_us)

    def _key_of(self, record: Record) -> HandledKey | None:
        dedupe_key = self._dedupe_key
        if isinstance(dedupe_key, str):
            payload = record.payload
            key = payload.get(dedupe_key) if isinstance(payload, dict) else None
        else:
            assert dedupe_key is not None
            key = dedupe_key(record)
        return None if key is None else HandledKey(digest_of(key), record.timestamp_us)


def lanes_of(entry: ActiveDelivery) -> Sequence[Hashable]:
    """Return the lanes of a record: that of its key, and that of its de-duplication key."""
    record = entry.record or entry.carrier
    lanes: list[Hashable] = []
    if record.key is not None:
        lanes.append(("key", record.partition, record.key))
    if entry.key is not None:
        lanes.append(("handled", entry.key.key))
    return lanes
