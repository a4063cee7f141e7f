"""Stores the outcomes of records: handled keys first, then acks, dead letters and retries."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from strandline.clock import Clock
from strandline.log import Log
from strandline.subscriptions import Consumer, Delivery
from strandline.triggers.handled_keys import HandledKey, HandledKeys
from strandline.triggers.source import Source
from strandline.triggers.trigger import Trigger
from strandline.values import LeaseLostError, Record, Topic

_REASON_CHARS_MAX = 2_000
_NOTES_BETWEEN_TRIMS = 256

_logger = logging.getLogger("strandline")


class Verdict(Enum):
    """How a delivery is to be settled; the value is its name in `Counters`."""

    HANDLED = "handled"
    REPEATED = "deduplicated"
    UNWANTED = "passed_over"
    LOST = "lost"
    """Another process has the partition now, and handles the record."""
    RETURNED = "returned"
    """Not handled here: an earlier record of its key goes to another process unhandled."""
    FAILED = "retried"
    """The record is delivered again after a delay."""
    DEAD_LETTER = "dead_lettered"

    @property
    def is_final(self) -> bool:
        """Whether the record needs an ack and nothing else."""
        # Not a set: hashing a member of an enumeration is slow.
        return self is Verdict.HANDLED or self is Verdict.REPEATED or self is Verdict.UNWANTED


@dataclass(slots=True, eq=False)
class Finished:
    """A delivery with its verdict."""

    source: Source
    delivered: Delivery
    """Without its value."""
    verdict: Verdict
    key: HandledKey | None = None
    error: BaseException | None = None
    settled: asyncio.Event | None = None
    delay_s: float = 0.0
    is_settled: bool = False

    @property
    def carrier(self) -> Record:
        """The delivered record, used for its partition and offset."""
        return self.delivered.record


class Settling:
    """Stores the outcomes of one trigger's records."""

    def __init__(
        self, log: Log, topic: Topic, trigger: Trigger, keys: HandledKeys | None, clock: Clock
    ) -> None:
        self._log = log
        self._topic = topic
        self._trigger = trigger
        self._keys = keys
        self._clock = clock
        self._notes = 0
        self.horizon_us: int | None = None
        """No record appended before this time is left; None if it was not looked up."""

    def settle(self, batch: Sequence[Finished]) -> None:
        """Store all outcomes, with the log's highest durability. May block.

        May be repeated with a batch that failed: settled records of it are skipped.
        """
        # Invariant: a key is stored before the ack of its record, and before the acks of
        # the records that were skipped because of it.
        self._store_keys(batch)
        self._settle_together(Consumer.ack, [one for one in batch if one.verdict.is_final])
        returned = [one for one in batch if one.verdict is Verdict.RETURNED]
        self._settle_together(Consumer._put_back, returned)  # noqa: SLF001 - Of no other use.
        for one in batch:
            if not one.is_settled:
                self._settle_one(one)

    def _settle_together(
        self, settle: Callable[[Consumer, list[Delivery]], object], ended: Sequence[Finished]
    ) -> None:
        """Settle records in the same way, with one call for each partition."""
        by_place: dict[tuple[int, int], list[Finished]] = {}
        for one in ended:
            if not one.is_settled:
                place = id(one.source), one.delivered.record.partition
                by_place.setdefault(place, []).append(one)
        for each in by_place.values():
            try:
                settle(each[0].source.consumer, [one.delivered for one in each])
            except LeaseLostError:
                # `settle` does it one by one, which shows which of them are lost.
                continue
            for one in each:
                one.is_settled = True

    def _settle_one(self, one: Finished) -> None:
        try:
            if one.verdict.is_final:
                one.source.consumer.ack(one.delivered)
            elif one.verdict is not Verdict.LOST:
                self._give_up(one)
        except LeaseLostError as error:
            one.verdict = Verdict.LOST
            _logger.warning(
                "trigger %s lost the partition of a handled record, which another process"
                " handles again: %s",
                *(self._trigger.name, error),
            )
        one.is_settled = True

    def _give_up(self, one: Finished) -> None:
        if one.verdict is Verdict.RETURNED:
            one.source.consumer._put_back([one.delivered])  # noqa: SLF001 - Of no other use.
            return
        if one.verdict is Verdict.FAILED:
            one.source.consumer.nack(one.delivered, delay_s=one.delay_s)
            return
        # Raises if the partition is no longer held, before anything is stored.
        one.source.consumer.attempts(one.delivered)
        reason = reason_of(one.error)
        carrier = one.source.read(one.carrier.partition, one.carrier.offset)
        one.source.dead_letter(carrier, deliveries=one.delivered.count, reason=reason)
        _logger.error(
            "trigger %s dead-lettered a record: "
            "topic=%s partition=%d offset=%d deliveries=%d cause=%s",
            *(self._trigger.name, carrier.topic, carrier.partition, carrier.offset),
            *(one.delivered.count, reason),
            exc_info=one.error if one.error is not None and one.error.__traceback__ else None,
            extra={
                "trigger": self._trigger.name,
                "topic": carrier.topic,
                "partition": carrier.partition,
                "offset": carrier.offset,
                "deliveries": one.delivered.count,
                "cause": reason,
            },
        )

    def _store_keys(self, batch: Sequence[Finished]) -> None:
        handled = [
            one.key
            for one in batch
            if one.key is not None and one.verdict is Verdict.HANDLED and not one.is_settled
        ]
        if self._keys is None or not handled:
            return
        self._keys.store(handled)
        self._notes += 1
        if self._notes % _NOTES_BETWEEN_TRIMS == 0:
            self.horizon_us = self._find_horizon()
            if self.horizon_us is not None:
                self._keys.trim(self.horizon_us)

    def _find_horizon(self) -> int | None:
        """Return a time before which all records are handled."""
        times = []
        for partition in range(self._log.describe_topic(self._topic).settings.partitions):
            cursor = self._log.cursor(self._topic, self._trigger.name, partition)
            marks = self._log.marks(self._topic, partition)
            following = max(cursor or 0, marks.low)
            if following < marks.high:
                (first,) = self._log.read(self._topic, partition, following, records_max=1)
                times.append(first.timestamp_us)
        return min(times, default=self._clock.now_us())


def reason_of(error: BaseException | None) -> str:
    """Return an error as text that fits into a header."""
    if error is None:
        return "no cause is known"
    try:
        text = f"{type(error).__qualname__}: {error}"
    except Exception:  # noqa: BLE001 - The `__str__` of the error raises.
        text = type(error).__qualname__
    return text[:_REASON_CHARS_MAX].encode(errors="backslashreplace").decode()
