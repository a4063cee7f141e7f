"""Processes that are members of one group: each reports what it begins, acks and is refused."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from uuid import UUID

import strandline as sl
from strandline.clock import SystemClock, Timer
from strandline.groups import AssignmentEvent
from strandline.locks import Signal
from tests.processes.report import Report
from tests.processes.stores import open_store
from tests.processes.workloads import PARTITIONS, TOPIC

NAME = "billing"
RECORDS = 40
LEASE_S = 0.6
#: More than there are kills: what is dead-lettered here was so without a reason.
DELIVERIES_MAX = 1_000
JUMP_US = 3_600_000_000
NEVER_S = 3_600.0


class JumpingClock:
    """The system's clock, whose wall clock is set an hour forth or back every few reads.

    Its timers run `late_s` after their time.
    """

    def __init__(self, rng: random.Random, late_s: float = 0.0) -> None:
        self._clock = SystemClock()
        self._rng = rng
        self._moved_us = 0
        self._late_s = late_s

    def now_us(self) -> int:
        if self._rng.random() < 0.05:
            self._moved_us = self._rng.choice([-JUMP_US, 0, JUMP_US])
        return self._clock.now_us() + self._moved_us

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay_s + self._late_s, action)

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        return self._clock.wait(event, timeout_s)

    def new_id(self) -> UUID:
        return self._clock.new_id()

    def random_bytes(self, count: int) -> bytes:
        return self._clock.random_bytes(count)


def feed(report: Report, url: str) -> None:
    """Append RECORDS to each partition."""
    with open_store(url) as log:
        for partition in range(PARTITIONS):
            events = [sl.Event("order", {"n": n}) for n in range(RECORDS)]
            log.append_many(TOPIC, events, partition=partition)
    report.say("done")


def consume(report: Report, url: str, seed: int, leaves_after: int) -> None:
    """Be a member until killed, or until so many records were handled."""
    rng = random.Random(seed)
    log = open_store(url)
    consumer = _joined(report, log, JumpingClock(rng))
    for number, delivery in enumerate(consumer):
        if number == leaves_after:
            break
        _handle(report, consumer, delivery, rng)
    consumer.close()
    log.close()
    report.say("left")


def sleep_with_a_record(report: Report, url: str) -> None:
    """Take a record, stop until another process continues this one, and try to ack it then."""
    log = open_store(url)
    # Nothing of this member but the ack itself finds out that it has lost its lease.
    consumer = _joined(report, log, JumpingClock(random.Random(), late_s=NEVER_S))
    delivery = next(iter(consumer))
    report.say("took", delivery.record.partition, delivery.record.offset)
    os.kill(os.getpid(), signal.SIGSTOP)
    report.say("woke", consumer.holds(delivery))
    try:
        consumer.ack(delivery)
    except sl.LeaseLostError:
        report.say("refused")
    else:
        report.say("acked")
    os._exit(0)


def _joined(report: Report, log: sl.Log, clock: JumpingClock) -> sl.Consumer:
    def told(event: AssignmentEvent) -> None:
        report.say(type(event).__name__, event.partition, event.generation)

    return log.consumer(
        TOPIC,
        NAME,
        lease_s=LEASE_S,
        deliveries_max=DELIVERIES_MAX,
        clock=clock,
        on_assignment=told,
    )


def _handle(
    report: Report, consumer: sl.Consumer, delivery: sl.Delivery, rng: random.Random
) -> None:
    place = delivery.record.partition, delivery.record.offset, delivery.generation
    at = time.monotonic()
    report.say("begin", *place, at, consumer.holds(delivery))
    time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.01)]))
    try:
        consumer.ack(delivery)
    except sl.LeaseLostError:
        report.say("refused", *place)
    else:
        report.say("acked", *place)


def cursors(report: Report, url: str) -> None:
    """Report where the group is, and how many dead letters there are."""
    with open_store(url) as log:
        found = [log.cursor(TOPIC, NAME, each) or 0 for each in range(PARTITIONS)]
        letters = [each.name for each in log.topics(internal=True) if "dead" in each.name]
        report.say("cursors", found, letters)
    os._exit(0)
