"""Background retention, in any process that writes. See design 0095."""

import logging
import os
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from strandline.clock import Clock, Timer
from strandline.locks import Latch
from strandline.log.claims import host_name
from strandline.log.cursors import ConsumerCursors
from strandline.log.retention import Retention
from strandline.log.store import Store, StoredTopic
from strandline.values import (
    ClosedError,
    DroppedError,
    HeldBack,
    Mode,
    RetentionStatus,
    StrandlineError,
    Topic,
    TrimReport,
)
from strandline.values.arguments import check_flag

FIRST_DELAY_S: Final = 5.0
"""How long after its first write a process checks retention for the first time."""
INTERVAL_S: Final = 60.0
"""How often retention is applied to each topic, by any one process."""
LEASE_S: Final = 10 * INTERVAL_S
"""How long after the last report another process takes over."""
REPORT_S: Final = 5 * INTERVAL_S
"""How often to report a run that removed nothing and found nothing new."""
RETRY_MAX_S: Final = LEASE_S
"""The longest pause while every step fails."""
STEP_RECORDS: Final = 100_000
"""How many records of a partition one step removes at most."""
REST_MIN_S: Final = 0.05
STOP_TIMEOUT_S: Final = 10.0
#: It pauses this many times as long as it worked.
_REST: Final = 9

RETENTION_KEY: Final = "retention"
_logger = logging.getLogger("strandline")
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(RetentionStatus).decode


def load_status(store: Store[StoredTopic], topic: StoredTopic) -> RetentionStatus | None:
    """Return the report of a topic's last run; None if there was none."""
    return _loaded(store.get_key(topic, RETENTION_KEY))


def _loaded(raw: bytes | None) -> RetentionStatus | None:
    try:
        return None if raw is None else _decode(raw)
    except msgspec.MsgspecError:
        # Only a report: the next run replaces it.
        return None


class RetentionWorker:
    """Trims topics to their retention, one step at a time, on its own timers.

    Of the processes that have a log open, one holds the lease for a topic, kept in the topic's
    keyed area. A failed step is retried after the interval, and less often while every step
    fails; a failure is logged once, until a different one occurs.
    """

    def __init__(
        self,
        store: Store[StoredTopic],
        cursors: ConsumerCursors,
        clock: Clock,
        *,
        is_wanted: bool,
    ) -> None:
        self._store = store
        self._retention = Retention(store, cursors, clock)
        self._cursors = cursors
        self._clock = clock
        self._pid = os.getpid()
        # If trimming is nearly free, appends trim their topic instead.
        is_needed = store.mode is Mode.WRITE and not store.capabilities.trims_at_once
        self._is_over = not (check_flag("retention", is_wanted) and is_needed)
        self._holder = ""
        self._topics: deque[Topic] = deque()
        self._faults: dict[Topic | None, str] = {}
        self._has_worked = False
        self._pause_s = INTERVAL_S
        self._timer: Timer | None = None
        self._is_idle = Latch()
        self._is_idle.set()

    def begin(self, topic: StoredTopic) -> None:
        """Start the worker if it is not running: this process writes to a topic."""
        if self._timer is not None or self._is_over:
            return
        if not self._holder:
            self._holder = str(self._clock.new_id())
        elif not topic.settings.has_limits:
            # The last round found no topic with limits, and this topic has none.
            return
        self._call_later(FIRST_DELAY_S)

    def stop(self) -> None:
        """Stop, after the running step."""
        self._is_over = True
        if os.getpid() != self._pid:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._is_idle.wait(STOP_TIMEOUT_S)

    def _call_later(self, delay_s: float) -> None:
        # A weak reference: the timer must not keep an unreferenced log open.
        self._timer = self._clock.call_later(delay_s, partial(_run, weakref.ref(self)))

    def step(self) -> None:
        """Work on one topic, and schedule the next step."""
        self._is_idle = Latch()
        began_at = self._clock.monotonic()
        try:
            if self._is_over:
                return
            if not self._work():
                self._timer = None
                return
        except ClosedError:
            return
        finally:
            self._is_idle.set()
        if not self._is_over:
            self._call_later(self._rest_s(self._clock.monotonic() - began_at))

    def _rest_s(self, spent_s: float) -> float:
        if self._topics:
            return max(REST_MIN_S, _REST * spent_s)
        # If every step failed, the log may be unavailable: wait longer each time.
        is_well = self._has_worked or not self._faults
        self._pause_s = INTERVAL_S if is_well else min(2 * self._pause_s, RETRY_MAX_S)
        self._has_worked = False
        return self._pause_s

    def _work(self) -> bool:
        """Work on the next topic whose lease is ours; False if no topic has limits."""
        topic = None
        try:
            if not self._topics and not self._begin_round():
                return False
            while self._topics:
                topic = self._topics.popleft()
                is_done = self._work_on(topic)
                self._has_worked = True
                self._faults.pop(topic, None)
                if is_done:
                    break
        except ClosedError:
            raise
        except StrandlineError as error:
            self._note_fault(topic, str(error))
        return True

    def _begin_round(self) -> bool:
        """List the topics with limits; False if there are none."""
        every = (self._fresh(each.topic) for each in self._store.topics())
        self._topics.extend(found.topic for found in every if found is not None)
        known = set(self._topics)
        self._faults = {topic: fault for topic, fault in self._faults.items() if topic in known}
        return bool(self._topics)

    def _work_on(self, topic: Topic) -> bool:
        """Apply a topic's retention, if it has limits and we hold its lease."""
        found = self._fresh(topic)
        if found is None:
            return False
        try:
            if not self._is_mine(found):
                return False
            self._apply(found)
        except DroppedError:
            return False
        return True

    def _note_fault(self, topic: Topic | None, fault: str) -> None:
        """Log a failure, unless it is the same as before, or the log was closed meanwhile."""
        if self._is_over:
            return
        if fault not in self._faults.values():
            _logger.warning("retention failed and is tried again: %s", fault)
        self._faults[topic] = fault

    def _fresh(self, topic: Topic) -> StoredTopic | None:
        """Return the topic with its current settings, if it has limits."""
        found = self._store.find_topic(topic.tenant, topic.name, fresh=True)
        if found is None or found.topic.id != topic.id:
            return None
        return found if found.settings.has_limits else None

    def _is_mine(self, topic: StoredTopic) -> bool:
        """Whether we hold the lease of a topic; takes over an expired one."""
        now_us = self._clock.now_us()
        raw = self._store.get_key(topic, RETENTION_KEY)
        known = _loaded(raw)
        if known is not None and known.until_us > now_us:
            return known.holder == self._holder
        taken = RetentionStatus(
            holder=self._holder,
            pid=os.getpid(),
            host=host_name(),
            until_us=now_us + round(LEASE_S * 1_000_000),
            ran_at_us=None if known is None else known.ran_at_us,
            removed=0 if known is None else known.removed,
            held=() if known is None else known.held,
        )
        return self._store.put_key(topic, RETENTION_KEY, _encode(taken), raw)

    def _apply(self, topic: StoredTopic) -> None:
        reports = []
        for number in range(topic.settings.partitions):
            reports.append(self._retention.apply(topic, number, records_max=STEP_RECORDS))
            if self._is_over:
                return
        if any(each.removed >= STEP_RECORDS for each in reports):
            # There is more to remove, after a pause.
            self._topics.appendleft(topic.topic)
        self._report(topic, reports)

    def _report(self, topic: StoredTopic, reports: list[TrimReport]) -> None:
        raw = self._store.get_key(topic, RETENTION_KEY)
        known = _loaded(raw)
        if known is None or known.holder != self._holder:
            return
        now_us = self._clock.now_us()
        held = tuple(
            HeldBack(
                each.partition,
                each.held_at,
                self._cursors.names_at(topic, each.partition, each.held_at),
            )
            for each in reports
            if each.held_at is not None
        )
        removed = sum(each.removed for each in reports)
        is_new = known.ran_at_us is None or removed > 0 or held != known.held
        if not is_new and now_us < (known.ran_at_us or 0) + round(REPORT_S * 1_000_000):
            # Each report is a durable write.
            return
        status = replace(
            known,
            until_us=now_us + round(LEASE_S * 1_000_000),
            ran_at_us=now_us,
            removed=removed,
            held=held,
        )
        self._store.put_key(topic, RETENTION_KEY, _encode(status), raw)


def _run(worker: "Callable[[], RetentionWorker | None]") -> None:
    if (found := worker()) is not None:
        found.step()
