"""The sources of a trigger's records: its topic, and redriven dead letters of the topic."""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from strandline.clock import Clock
from strandline.groups import AssignmentEvent
from strandline.log import Log
from strandline.subscriptions import Consumer
from strandline.subscriptions.blocked_keys import OnDeadLetter
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.dead_letters import append_dead_letter
from strandline.subscriptions.redriving import is_for, original, redrive_topic
from strandline.triggers.trigger import Trigger
from strandline.values import EARLIEST, Record, Start, Topic, ValueKind

Watcher = Callable[[AssignmentEvent], None]
"""Called on another thread when a partition is assigned or revoked."""


class Source(Protocol):
    """A consumer, and the subjects of its records.

    A consumer delivers carriers. The subject of a carrier is the record that is handled.
    """

    @property
    def consumer(self) -> Consumer:
        """The consumer that delivers the carriers."""

    def read(self, partition: int, offset: int) -> Record:
        """Read a carrier again."""

    def subject(self, carrier: Record) -> Record | None:
        """Return the subject of a carrier; None if it is for another trigger."""

    def dead_letter(self, carrier: Record, *, deliveries: int, reason: str) -> None:
        """Dead-letter the subject, and ack the carrier. May block."""


class TopicSource:
    """The topic itself: each carrier is its own subject."""

    def __init__(
        self, log: Log, topic: Topic, trigger: Trigger, clock: Clock, watcher: Watcher
    ) -> None:
        self._log = log
        self._topic = topic
        # For batches, the trigger itself selects rows, in the newest schema.
        is_event = log.describe_topic(topic).settings.value_kind is ValueKind.EVENT
        where = trigger.where if is_event else ""
        self.consumer: Final = _consumer(
            *(log, topic, trigger, clock),
            start=trigger.start,
            where=where,
            watcher=watcher,
            on_dead_letter="block-key" if trigger.blocks_keys else "continue",
        )

    def read(self, partition: int, offset: int) -> Record:
        """See Source."""
        return _read(self._log, self._topic, partition, offset)

    def subject(self, carrier: Record) -> Record | None:
        """See Source."""
        return carrier

    def dead_letter(self, carrier: Record, *, deliveries: int, reason: str) -> None:  # noqa: ARG002 - The consumer has the count.
        """See Source."""
        self.consumer.dead_letter(carrier, reason=reason)


class RedriveSource:
    """Redriven dead letters of the topic."""

    def __init__(
        self, log: Log, topic: Topic, trigger: Trigger, clock: Clock, watcher: Watcher
    ) -> None:
        self._log = log
        self._topic = topic
        self._name = trigger.name
        self._redriven = redrive_topic(log, topic)
        self.consumer: Final = _consumer(
            log, self._redriven, trigger, clock, start=EARLIEST, watcher=watcher
        )

    def read(self, partition: int, offset: int) -> Record:
        """See Source."""
        return _read(self._log, self._redriven, partition, offset)

    def subject(self, carrier: Record) -> Record | None:
        """See Source."""
        if not is_for(carrier, self._topic, self._name):
            return None
        return original(self._log, self._topic, carrier)

    def dead_letter(self, carrier: Record, *, deliveries: int, reason: str) -> None:
        """See Source."""
        whole = self.read(carrier.partition, carrier.offset)
        subject = self.subject(whole)
        # None if it was erased meanwhile, as its dead letter was.
        if subject is not None:
            append_dead_letter(
                *(self._log, ConsumerName(self._topic, self._name, None), subject),
                deliveries=deliveries,
                reason=reason,
                carrier=carrier,
            )
        self.consumer.ack(carrier)


def _consumer(
    log: Log,
    topic: Topic,
    trigger: Trigger,
    clock: Clock,
    *,
    start: Start | datetime,
    where: str = "",
    watcher: Watcher,
    on_dead_letter: OnDeadLetter = "continue",
) -> Consumer:
    # The trigger itself dead-letters a record, and logs it.
    return Consumer(
        log,
        topic,
        trigger.name,
        start=start,
        where=where,
        deliveries_max=None,
        clock=clock,
        redriven=False,
        on_assignment=watcher,
        on_dead_letter=on_dead_letter,
    )


def _read(log: Log, topic: Topic, partition: int, offset: int) -> Record:
    (record,) = log.read(topic, partition, offset, records_max=1)
    return record
