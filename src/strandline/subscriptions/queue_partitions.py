"""The partitions of a work queue: all of its topic's, including ones added later."""

import contextlib
import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from strandline.clock import Clock
from strandline.groups import LEASE_S, Membership
from strandline.log import Log, Watch, count_partitions
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.queue_store import QueueStore
from strandline.subscriptions.start import resolve
from strandline.values import (
    CONSUMER_IDLE_S,
    EARLIEST,
    Partition,
    Start,
    StartName,
    StrandlineError,
)
from strandline.values.arguments import check_choice

SEEN_S: Final = CONSUMER_IDLE_S / 7
"""How often a reading member renews its consumer's heartbeat."""


class QueuePartitions:
    """Registers the consumer in each partition, watches them, and follows moved cursors."""

    def __init__(
        self,
        log: Log,
        whose: ConsumerName,
        *,
        start: Start | StartName | datetime,
        queue: QueueStore,
        watch: Watch,
        clock: Clock,
        lease_clock: Clock,
        visibility_s: float,
    ) -> None:
        self._log = log
        self._topic, self._consumer, self._tenant = whose
        if not isinstance(start, datetime):
            start = check_choice("start", start, Start, "a datetime")
        self._start: Start | datetime = start
        self._queue = queue
        self._watch = watch
        self._clock = clock
        self._looked_at = self._seen_at = clock.monotonic()
        self.count: int = 0
        self._membership = Membership(
            *(log, whose.topic, whose.name),
            tenant=whose.owner,
            # Longer than a delivery, even one made just before the next renewal.
            lease_s=LEASE_S + 2 * visibility_s,
            clock=lease_clock,
            partitions=lambda: 0,
            is_manual=True,
            is_shared=True,
        )
        self._staying = threading.Lock()

    def stay(self) -> None:
        """Join as a member, so that no consumer that is not shared can use the name.

        UnavailableError if there is one.
        """
        with self._staying:
            self._membership.look()

    def leave(self) -> None:
        """Leave as a member. May be repeated."""
        with self._staying, contextlib.suppress(StrandlineError):
            self._membership.leave()

    def join(self) -> None:
        """Join the partitions that exist and were not joined yet."""
        added = range(self.count, count_partitions(self._log, self._topic))
        self.stay()
        self._register(added)
        for partition in added:
            self._queue.follow_cursor(partition)
            self._watch.add(self._topic, partition, 0)
            self.count = partition + 1

    def keep_up(self) -> None:
        """Process other members' changes and renew the heartbeat, if that is due. May block."""
        now = self._clock.monotonic()
        if now < self._looked_at + POLL_S:
            return
        self._looked_at = now
        if not isinstance(self._start, datetime):
            # Partitions added from now on begin at their first record.
            self._start = EARLIEST
        self.join()
        self._queue.follow_cursors(self.count)
        if now >= self._seen_at + SEEN_S:
            self._seen_at = now
            self._register(range(self.count))

    def _register(self, partitions: Iterable[int]) -> None:
        starts = {}
        for partition in partitions:
            place = TopicPartition(self._topic, Partition(partition))
            marks = self._log.marks(*place)
            starts[partition] = resolve(self._log, place, self._start, marks, marks.high)
        if starts:
            self._log.register(self._topic, self._consumer, starts, tenant=self._tenant)
