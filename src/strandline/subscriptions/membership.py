"""A consumer's registration in its partitions, and its claim to be their one reader."""

import contextlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from strandline.clock import Clock
from strandline.log import Claim, Log
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.start import resolve
from strandline.values import (
    CONSUMER_IDLE_S,
    EARLIEST,
    Offset,
    Partition,
    Start,
    StartName,
    Topic,
    UnavailableError,
)
from strandline.values.arguments import check_choice

HEARTBEAT_S: Final = CONSUMER_IDLE_S / 7
"""How often a consumer that is being read sends a heartbeat, though it acks nothing."""


class Membership:
    """The partitions that one consumer object reads under its name."""

    def __init__(
        self,
        log: Log,
        topic: Topic,
        consumer: str,
        *,
        tenant: str | None,
        start: Start | StartName | datetime,
        clock: Clock,
    ) -> None:
        self._log = log
        self._topic = topic
        self._consumer = consumer
        self._tenant = tenant
        if not isinstance(start, datetime):
            start = check_choice("start", start, Start, "a datetime")
        self._start = start
        self._clock = clock
        self._claims: dict[int, Claim] = {}
        self._seen_at = clock.monotonic()

    def join(self, partitions: Collection[int]) -> Mapping[Partition, Offset]:
        """Claim these partitions, register in them, and return the cursors: all or none.

        UnavailableError if another reader of this name has one of them.
        """
        try:
            for partition in partitions:
                self._claims[partition] = self._log.claim(
                    self._topic, self._consumer, partition, tenant=self._tenant
                )
            return self._register(partitions)
        except BaseException:
            for partition in partitions:
                self.leave(partition)
            raise

    def begin_at_first(self) -> None:
        """Begin at the first record in partitions joined from now on: they were added."""
        if not isinstance(self._start, datetime):
            self._start = EARLIEST

    def leave(self, partition: int) -> None:
        """Let another reader have the partition. The consumer goes on to exist there."""
        if (claim := self._claims.pop(partition, None)) is not None:
            claim.release()

    def is_heartbeat_due(self, now: float) -> bool:
        """Whether it is time for a heartbeat."""
        return now >= self._seen_at + HEARTBEAT_S

    def send_heartbeat(self) -> None:
        """Send a heartbeat for the consumer, in each of its partitions. May have to wait."""
        self._seen_at = self._clock.monotonic()
        # One that fails is made up for by the next, long before the silence is too long.
        with contextlib.suppress(UnavailableError):
            self._register(tuple(self._claims))

    def close(self) -> None:
        """Leave all partitions."""
        for partition in tuple(self._claims):
            self.leave(partition)

    def _register(self, partitions: Collection[int]) -> Mapping[Partition, Offset]:
        starts = {}
        for partition in partitions:
            place = TopicPartition(self._topic, Partition(partition))
            marks = self._log.marks(*place)
            starts[partition] = resolve(self._log, place, self._start, marks, marks.high)
        if not starts:
            return {}
        return self._log.register(self._topic, self._consumer, starts, tenant=self._tenant)
