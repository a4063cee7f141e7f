"""A delivery that a trigger is processing."""

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

from strandline.subscriptions import Delivery
from strandline.triggers.handled_keys import HandledKey
from strandline.triggers.settling import Finished, Verdict
from strandline.triggers.source import Source
from strandline.values import InvalidError, LeaseLostError, Record, StrandlineError
from strandline.values.record import with_value


class TooOftenError(StrandlineError):
    """Each process that handled a record ended while it did."""


@dataclass(slots=True, eq=False)
class ActiveDelivery:
    """A delivery in progress: it waits to begin, runs, or is delayed until its retry."""

    source: Source
    delivered: Delivery
    """Without its value."""
    record: Record | None = None
    """The argument of the function; None if it was dropped while waiting, and is read again."""
    attempt: int = 1
    """The number of this attempt in the retry schedule, from 1."""
    is_suspect: bool = False
    """Whether it was in flight when a process ended, and so has to run alone."""
    settled: asyncio.Event | None = None
    """For a suspect: set once it is settled."""
    key: HandledKey | None = None
    error: Exception | None = None

    @property
    def carrier(self) -> Record:
        """The record that the consumer delivered, without its value."""
        return self.delivered.record

    @property
    def place(self) -> tuple[int, int, int]:
        """Identifies it among the deliveries in progress."""
        carrier = self.delivered.record
        return id(self.source), carrier.partition, carrier.offset

    @property
    def shown(self) -> dict[str, object]:
        """The fields that a log line has about it."""
        carrier = self.carrier
        return {
            "topic": carrier.topic,
            "partition": carrier.partition,
            "offset": carrier.offset,
            "attempt": self.attempt,
        }

    @property
    def is_gone(self) -> bool:
        """Whether its partition went to another process."""
        try:
            self.source.consumer.attempts(self.delivered)
        except (InvalidError, LeaseLostError):
            return True
        return False

    @property
    def is_held(self) -> bool:
        """Whether this process surely holds the partition, decided without reading the log."""
        return self.source.consumer.holds(self.delivered)

    def finished(self, verdict: Verdict, error: BaseException | None = None) -> Finished:
        """Return its outcome, and drop its value."""
        self.record = None
        return Finished(self.source, self.delivered, verdict, self.key, error, self.settled)


def light(delivery: Delivery) -> Delivery:
    """Return a delivery whose record has no value."""
    return Delivery(with_value(delivery.record, b""), delivery.count, delivery.generation)


def is_async(function: Any) -> bool:
    """Whether calling the function returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - An object with an async `__call__`.
    )
