"""A process that forks with a log open, and the log in both."""

import os
import signal
from collections.abc import Callable
from typing import Any

from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing.faulty_io import FaultyIo, Operation
from strandline.values import ClosedError, Event
from tests.processes.concurrent_writers import UNLOCKS
from tests.processes.report import Report
from tests.processes.stores import open_store
from tests.processes.workloads import CONSUMER, TOPIC, Writer

CALLS: dict[str, Callable[[Log], object]] = {
    "topic": lambda log: log.topic(TOPIC),
    "topics": lambda log: log.topics(),
    "describe": lambda log: log.describe(),
    "describe_topic": lambda log: log.describe_topic(TOPIC),
    "create_topic": lambda log: log.create_topic("another"),
    "change_retention": lambda log: log.change_retention(
        TOPIC, retention_age_s=None, retention_bytes=None
    ),
    "add_partitions": lambda log: log.add_partitions(TOPIC, 64),
    "drop_topic": lambda log: log.drop_topic(TOPIC),
    "append": lambda log: log.append(TOPIC, Event("child")),
    "append_many": lambda log: log.append_many(TOPIC, [Event("child")]),
    "read": lambda log: list(log.read(TOPIC, 0, 0)),
    "read_batches": lambda log: list(log.read_batches(TOPIC, 0, 0)),
    "marks": lambda log: log.marks(TOPIC, 0),
    "offset_at": lambda log: log.offset_at(TOPIC, 0, 1),
    "epochs": lambda log: log.epochs(TOPIC, 0),
    "segments": lambda log: log.segments(TOPIC, 0),
    "position": lambda log: log.position(TOPIC, 0, 0),
    "watch": lambda log: log.watch(),
    "trim": lambda log: log.trim(TOPIC, 0, 1),
    "apply_retention": lambda log: log.apply_retention(TOPIC),
    "ack": lambda log: log.ack(TOPIC, CONSUMER, 0, 1),
    "seek": lambda log: log.seek(TOPIC, CONSUMER, 0, 1),
    "cursor": lambda log: log.cursor(TOPIC, CONSUMER, 0),
    "consumers": lambda log: log.consumers(TOPIC),
    "forget": lambda log: log.delete_consumer(TOPIC, CONSUMER),
    "sync": lambda log: log.sync(TOPIC, 0),
    "flush": lambda log: log.flush(),
}


def fork_and_continue(report: Report, *, url: str, options: dict[str, Any]) -> None:
    """Fork with a log open: the child tries each call and ends; the parent continues."""
    log = open_store(url, **options)
    writer = Writer(report, log, "parent", 0)
    assert writer.append(0)
    begun = log.read(TOPIC, 0, 0)
    next(begun)
    child = os.fork()
    if child == 0:
        report.say("allowed", [name for name, call in CALLS.items() if not _is_refused(call, log)])
        report.say("read on", _is_refused(lambda _: list(begun), log))
        log.close()
        # As any program ends: with all that runs then.
        raise SystemExit
    os.waitpid(child, 0)
    for _ in range(3):
        assert writer.append(0), writer.error
    log.close()


def _is_refused(call: Callable[[Log], object], log: Log) -> bool:
    try:
        call(log)
    except ClosedError:
        return True
    return False


def fork_while_holding(report: Report, *, url: str, options: dict[str, Any]) -> None:
    """Append, fork with the lock held, and exit; the child runs until it is killed."""
    io = FaultyIo(SystemIo())
    log = open_store(url, io=io, **options)
    writer = Writer(report, log, "parent", 0)
    assert writer.append(0)

    def fork(_: Operation) -> None:
        begun, begins = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(begins, b"!")
            signal.pause()
        # Until it runs Python, it has what its parent had open.
        os.read(begun, 1)
        report.say("child", child)
        os.kill(os.getpid(), signal.SIGKILL)

    if options.get("exclusive"):
        fork(Operation("unlock", ""))
    io.before(1, fork, kinds=UNLOCKS)
    writer.append(0)
