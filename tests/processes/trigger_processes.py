"""Processes that run triggers and are killed: each says what its function begins and ends."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing.faulty_io import FaultyIo
from strandline.triggers import Triggers, dead_letters, redrive
from tests.processes.report import Report
from tests.processes.stores import open_store
from tests.processes.workloads import PARTITIONS, TOPIC

NAME = "billing"
RECORDS = 60
IDS = RECORDS // 2
KEYS = 5
RETRIES = 12
DEAD_LETTER = 11
FAILS_ONCE = 7
PATIENCE_S = 20.0


def feed(report: Report, url: str) -> None:
    """Append RECORDS to each partition; the second half repeats the ids of the first."""
    with open_store(url) as log:
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                fields = {"n": number, "id": f"{partition}.{number % IDS}"}
                event = sl.Event("order", fields, key=f"k{number % KEYS}")
                log.append(TOPIC, event, partition=partition)
    report.say("done")


def handle(report: Report, url: str, seed: int) -> None:
    """Run the trigger until killed."""
    log = open_store(url)
    _report_cursors(report, log)
    _triggers(report, log, seed).run()


def handle_until_signalled(report: Report, url: str, seed: int, number: int, nth: int) -> None:
    """Run the trigger until its `nth` function sends this process a signal, and report it."""
    begun = itertools.count(1)

    def signal_at_nth() -> None:
        if next(begun) == nth:
            os.kill(os.getpid(), number)

    with open_store(url) as log:
        _report_cursors(report, log)
        _triggers(report, log, seed, signal_at_nth).run()
        report.say("stopped")
        _report_cursors(report, log)


def finish(report: Report, url: str, seed: int) -> None:
    """Run the trigger until everything is handled, and print what was dead-lettered."""
    with open_store(url) as log:
        _report_cursors(report, log)
        deadline = time.monotonic() + PATIENCE_S
        with _triggers(report, log, seed):
            while _cursors(log) != [RECORDS] * PARTITIONS and time.monotonic() < deadline:
                time.sleep(0.005)
        _report_cursors(report, log)
        letters = [(each.partition, each.record_offset) for each in dead_letters(log, TOPIC)]
        report.say("dead_letters", letters)


def _triggers(
    report: Report, log: Log, seed: int, on_begin: Callable[[], None] = lambda: None
) -> Triggers:
    rng = random.Random(seed)
    lock = threading.Lock()
    # Of quick functions many records are taken at once, and called in runs.
    longest_s = rng.choice([0.0, 0.004])
    triggers = Triggers(log)

    @triggers.on(
        TOPIC,
        name=NAME,
        concurrency=rng.choice([1, 3, 8]),
        retry=[0.0] * RETRIES,
        dedupe_key="id",
    )
    def bill(record: sl.Record, delivery: sl.Delivery) -> None:
        place = record.partition, record.offset
        report.say("begin", *place, delivery.count)
        on_begin()
        with lock:
            rest_s = rng.choice([0.0, 0.0, rng.uniform(0, longest_s)])
        time.sleep(rest_s)
        number = record.payload["n"] % IDS
        if number == DEAD_LETTER or (number == FAILS_ONCE and delivery.count == 1):
            report.say("failed", *place, delivery.count)
            raise ValueError(number)
        report.say("end", *place, delivery.count)

    return triggers


def _cursors(log: Log) -> list[int]:
    return [log.cursor(TOPIC, NAME, partition) or 0 for partition in range(PARTITIONS)]


def _report_cursors(report: Report, log: Log) -> None:
    report.say("cursors", _cursors(log))


def dead_letter(report: Report, url: str, count: int) -> None:
    """Have a consumer dead-letter so many records."""
    with open_store(url) as log:
        log.append_many(TOPIC, [sl.Event("order", {"n": n}) for n in range(count)], partition=0)
        with sl.Consumer(log, TOPIC, NAME, partitions=[0]) as consumer:
            for _ in range(count):
                delivery = consumer.next(PATIENCE_S)
                assert delivery is not None
                consumer.dead_letter(delivery.record, reason="a test wants it")
    report.say("done")


def be_killed_redriving(report: Report, url: str, nth: int) -> None:
    """Redrive what is dead-lettered, and be killed at the `nth` I/O call, if there are so many."""
    io = FaultyIo(SystemIo())
    io.before(nth, lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with open_store(url, io=io) as log:
        report.say("redriven", [each.offset for each in redrive(log, TOPIC)])


def report_redriven(report: Report, url: str) -> None:
    """Say which dead letters were redriven, in order."""
    with open_store(url) as log:
        redriven = log.topic(f"__strandline.redriven.{TOPIC}")
        records = log.read(redriven, 0, 0)
        report.say("redriven", [int(each.headers["strandline.dead_letter"]) for each in records])
