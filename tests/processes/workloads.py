"""What the processes do that are killed: each reports what it tries, and the outcome."""

import errno
import importlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing.faulty_io import FaultyIo, Operation, OperationKind
from strandline.values import (
    Durability,
    Event,
    StrandlineError,
    UnknownError,
)
from tests.processes import call_sites
from tests.processes.report import Report
from tests.processes.stores import open_store

TOPIC = "orders"
PARTITIONS = 2
CONSUMER = "billing"
SIDE_TOPIC = "side"
#: Enough that a few appends fill a small segment.
PADDING = "." * 2000
WRITES: tuple[OperationKind] = ("pwrite",)
SYNCS: tuple[OperationKind] = ("sync",)


class Writer:
    """Appends in a producer's name, and reports before and after."""

    def __init__(self, report: Report, log: Log, producer: str, following: int) -> None:
        self.report = report
        self.log = log
        self.producer = producer
        self.following = following
        self.error: StrandlineError | None = None

    def append(
        self,
        partition: int,
        count: int = 1,
        level: Durability = Durability.WRITTEN,
        *,
        identified: bool = True,
        timeout_s: float | None = None,
    ) -> bool:
        """Append the next `count` numbers whole; False if they were refused or are unknown."""
        first, self.following = self.following, self.following + count
        return self.repeat(
            first, count, partition, level, identified=identified, timeout_s=timeout_s
        )

    def repeat(
        self,
        first: int,
        count: int,
        partition: int,
        level: Durability = Durability.WRITTEN,
        *,
        identified: bool = True,
        timeout_s: float | None = None,
    ) -> bool:
        """Append these very numbers, perhaps again; what went wrong is in `error`."""
        events = [
            Event(self.producer, {"n": number, "padding": PADDING})
            for number in range(first, first + count)
        ]
        identity: dict[str, Any] = (
            {"producer": self.producer, "sequence": first} if identified else {}
        )
        self.report.say("offer", self.producer, first, count, str(level))
        try:
            receipts = self.log.append_many(
                TOPIC,
                events,
                partition=partition,
                durability=level,
                timeout_s=timeout_s,
                **identity,
            )
        except UnknownError as error:
            self.error = error
            self.report.say("unknown", self.producer, first, count, str(error))
            return False
        except StrandlineError as error:
            self.error = error
            kind = type(error).__name__
            self.report.say("refused", self.producer, first, count, kind, str(error))
            if "pid" in error.fields:
                self.report.say("held by", error.fields["pid"])
            return False
        places = [(receipt.partition, receipt.offset) for receipt in receipts]
        self.report.say("ack", self.producer, first, places)
        return True


def create(report: Report, url: str) -> None:
    """Make the log and its topic."""
    with open_store(url) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
    report.say("done")


def read_back(report: Report, url: str) -> None:
    """Open the log, report what it holds, and append again."""
    with open_store(url) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        report.report_contents(log, TOPIC, CONSUMER)
        writer = Writer(report, log, f"check.{os.getpid()}.{time.time_ns()}", 0)
        assert writer.append(0, 1, Durability.DURABLE)
        report.report_contents(log, TOPIC, CONSUMER)


def run_workload(
    report: Report,
    *,
    url: str,
    producer: str,
    following: int,
    seed: int,
    retry: tuple[int, int, int] | None,
) -> None:
    """Report what is stored, settle what is unknown, then do each operation again and again."""
    rng = random.Random(seed)
    log = open_store(url)
    report.report_contents(log, TOPIC, CONSUMER)
    writer = Writer(report, log, producer, following)
    if retry is not None:
        first, count, partition = retry
        assert writer.repeat(first, count, partition)
    report.say("at work")
    while True:
        writer.log = _step(rng, report, writer, url)


def _step(rng: random.Random, report: Report, writer: Writer, url: str) -> Log:
    log, partition = writer.log, rng.randrange(PARTITIONS)
    chance = rng.random()
    if chance < 0.7:
        report.say("where", partition)
        level = rng.choice([Durability.WRITTEN, Durability.WRITTEN, Durability.DURABLE])
        assert writer.append(partition, rng.choice([1, 1, 1, 2, 5]), level)
    elif chance < 0.78:
        trim(rng, report, log, partition)
    elif chance < 0.88:
        ack(rng, report, log, partition)
    elif chance < 0.94:
        change_topics(report, log)
    elif chance < 0.97:
        log.flush()
    else:
        log.close()
        return open_store(url)
    return log


def trim(rng: random.Random, report: Report, log: Log, partition: int) -> None:
    """Move the low-water mark a little."""
    marks = log.marks(TOPIC, partition)
    before = min(marks.high, marks.low + rng.randrange(1, 4))
    report.say("trimming", partition, before)
    # Not to the offset that it reports: that might be too far.
    log.trim(TOPIC, partition, before, force=True)
    report.say("trimmed", partition, before)


def ack(rng: random.Random, report: Report, log: Log, partition: int) -> None:
    """Move the consumer's cursor a little."""
    marks = log.marks(TOPIC, partition)
    end = min(marks.high, max(marks.low, log.cursor(TOPIC, CONSUMER, partition) or 0) + 2)
    report.say("acking", partition, end)
    report.say("acked", partition, log.ack(TOPIC, CONSUMER, partition, end))


def change_topics(report: Report, log: Log) -> None:
    """Drop the side topic if it is there, else create it."""
    if any(topic.name == SIDE_TOPIC for topic in log.topics()):
        report.say("dropping", SIDE_TOPIC)
        log.drop_topic(SIDE_TOPIC)
        report.say("dropped", SIDE_TOPIC)
    else:
        report.say("creating", SIDE_TOPIC)
        log.create_topic(SIDE_TOPIC)
        report.say("created", SIDE_TOPIC)


def hang(_: Report) -> None:
    """Neither report nor end."""
    threading.Event().wait()


# --- one script, killed or failing at a chosen call ---


def script(report: Report, url: str, io: FaultyIo) -> None:
    """Do everything that a log can do, in a fixed order; the first error ends it."""
    rng = random.Random(0)
    with open_store(url, io=io) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        report.say("created", TOPIC)
        writer = Writer(report, log, "script", 0)
        must(writer.append(0))
        must(writer.append(0, 1, Durability.DURABLE))
        must(writer.append(1, 3))
        for _ in range(3):
            must(writer.append(0, 4))
        log.sync(TOPIC, 0)
        ack(rng, report, log, 0)
        ack(rng, report, log, 0)
        trim(rng, report, log, 0)
        before = log.marks(TOPIC, 0).high - 3
        report.say("trimming", 0, before)
        log.trim(TOPIC, 0, before, force=True)
        report.say("trimmed", 0, before)
        change_topics(report, log)
        change_topics(report, log)
        must(writer.append(0, 2, Durability.DURABLE, identified=False))
        log.flush()
        assert log.describe().records
    with open_store(url, io=io, mode="read") as log:
        assert list(log.read(TOPIC, 0, log.marks(TOPIC, 0).low))
    with open_store(url, io=io) as log:
        must(Writer(report, log, "second", 0).append(0, 2, Durability.DURABLE))


class EndedError(Exception):
    """An append failed: the rest of the script is not for this log object."""


def must(done: bool) -> None:
    """Raise EndedError unless an append was done."""
    if not done:
        raise EndedError


def be_killed_at(report: Report, *, url: str, nth: int, halfway: bool, workload: str) -> None:
    """Run that script, `module:function`, and be killed at the `nth` I/O call."""
    io = FaultyIo(SystemIo())
    planned = io.before(nth, _tearing if halfway else _killing, kinds=WRITES if halfway else None)
    _workload(workload)(report, url, io)
    assert not planned.fired
    report.say("survived", io.count())


def fail_at(
    report: Report,
    *,
    url: str,
    nth: int,
    error: str | int,
    forever: bool,
    after: bool,
    kinds: list[OperationKind] | None,
    workload: str,
) -> None:
    """The same with a fault at the call; its outcome is reported, not raised."""
    io = FaultyIo(SystemIo())

    failed: list[str] = []

    def tell(operation: Operation) -> None:
        failed.append(operation.path)
        report.say("fault", operation.kind, call_sites.of_this_call())

    def tell_created(operation: Operation) -> None:
        if operation.mode in {"create", "create_new"} and failed:
            path = operation.path
            if failed[-1] in {path, os.path.dirname(path)}:
                report.say("created_again")

    io.before(1, tell_created, forever=True)
    io.before(nth, tell, kinds=WRITES if error == "short" else kinds, forever=forever)
    if error == "short":
        planned = io.write_short(nth, errno.ENOSPC, keep_bytes=7, forever=forever)
    else:
        what = Surprise("a surprise") if isinstance(error, str) else error
        planned = io.fail(nth, what, kinds=kinds, forever=forever, after=after)
    try:
        _workload(workload)(report, url, io)
    except (EndedError, StrandlineError, Surprise) as ended:
        report.say("ended", type(ended).__name__, str(ended))
    except OSError as escaped:
        report.say("untyped", call_sites.of_error(escaped), str(escaped))
    report.say("over", planned.fired)


def report_sites(report: Report, *, url: str, failed_sync: int, workload: str) -> None:
    """Run that script, and report which lines did I/O; the sync of that number fails, if not 0."""
    io = FaultyIo(SystemIo())
    sites: set[str | None] = set()
    io.before(1, lambda _: sites.add(call_sites.of_this_call()), forever=True)
    planned = io.fail(failed_sync, errno.EIO, kinds=SYNCS)
    try:
        _workload(workload)(report, url, io)
    except (EndedError, StrandlineError) as ended:
        report.say("ended", type(ended).__name__, str(ended))
    report.say("sites", [site for site in sites if site is not None], planned.fired)


def _workload(name: str) -> Callable[[Report, str, FaultyIo], None]:
    module, _, function = name.partition(":")
    found: Callable[[Report, str, FaultyIo], None] = getattr(
        importlib.import_module(f"tests.processes.{module}"), function
    )
    return found


class Surprise(Exception):  # noqa: N818 - Not an error that anything could expect.
    """Something that no code expects."""


def opening(report: Report, url: str, io: FaultyIo) -> None:
    """Open the log, and append once to each partition."""
    with open_store(url, io=io) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            must(Writer(report, log, f"opener.{time.time_ns()}", 0).append(partition))


def _killing(_: Operation) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _tearing(operation: Operation) -> None:
    assert operation.data is not None
    assert operation.offset is not None
    fd = os.open(operation.path, os.O_WRONLY)
    os.pwrite(fd, operation.data[: len(operation.data) // 2], operation.offset)
    os.kill(os.getpid(), signal.SIGKILL)
