"""Processes that handle a record which kills them, with others in flight."""

import os
import signal
import time

import strandline as sl
from strandline.log import Log
from strandline.triggers import Triggers, dead_letters
from tests.processes.report import Report
from tests.processes.stores import open_store
from tests.processes.workloads import PARTITIONS, TOPIC

RECORDS = 60
KEYS = 20
POISON = (0, 25)
ALLOWED = 3
NAMES = ("billing", "shipping")
PATIENCE_S = 40.0
HANDLING_S = 0.002


def feed(report: Report, url: str) -> None:
    """Append RECORDS to each partition."""
    with open_store(url) as log:
        for partition in range(PARTITIONS):
            events = [sl.Event("order", n, key=f"k{n % KEYS}") for n in range(RECORDS)]
            log.append_many(TOPIC, events, partition=partition)
    report.say("done")


def handle(report: Report, url: str, concurrency: int) -> None:
    """Run two triggers until everything is settled; one of them cannot survive POISON."""
    with open_store(url) as log:
        triggers = Triggers(log)
        for name in NAMES:
            retry = [0.0] * (ALLOWED - 1)
            add = triggers.on(TOPIC, name=name, concurrency=concurrency, retry=retry)
            add(lambda record, name=name: _handle(report, name, record))
        deadline = time.monotonic() + PATIENCE_S
        with triggers:
            while not _is_over(log) and time.monotonic() < deadline:
                time.sleep(0.005)
        _report_dead_letters(report, log)


def consume(report: Report, url: str, concurrency: int) -> None:
    """Take as many as `concurrency` says, handle them, ack them, until there are no more."""
    with (
        open_store(url) as log,
        sl.Consumer(log, TOPIC, NAMES[0], deliveries_max=ALLOWED) as consumer,
    ):
        while batch := _batch(consumer, concurrency):
            for delivery in batch:
                _handle(report, NAMES[0], delivery.record)
            for delivery in batch:
                consumer.ack(delivery.record)
        _report_dead_letters(report, log)


def _batch(consumer: sl.Consumer, size: int) -> list[sl.Delivery]:
    batch: list[sl.Delivery] = []
    try:
        while len(batch) < size and (delivery := consumer.next(0.0)) is not None:
            batch.append(delivery)
    except sl.UnavailableError:
        assert batch
    return batch


def _handle(report: Report, name: str, record: sl.Record) -> None:
    report.say("begin", name, record.partition, record.offset)
    time.sleep(HANDLING_S)
    if name == NAMES[0] and (record.partition, record.offset) == POISON:
        os.kill(os.getpid(), signal.SIGKILL)
    report.say("end", name, record.partition, record.offset)


def _is_over(log: Log) -> bool:
    ends = [log.cursor(TOPIC, name, n) for name in NAMES for n in range(PARTITIONS)]
    return all(end == RECORDS for end in ends)


def _report_dead_letters(report: Report, log: Log) -> None:
    letters = dead_letters(log, TOPIC)
    report.say(
        "dead_letters", [[p.consumer, p.partition, p.record_offset, p.deliveries] for p in letters]
    )
