"""What a process that may be killed reports to its supervisor, one line at a time."""

import json
import os
import threading
from collections.abc import Iterable
from typing import Any

from strandline.log import Log
from tests.processes.ledger import Ledger, Stored, Value

Message = list[Any]


class Report:
    """The writing end, in the process. A line is there whole or, after a kill, not at all."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def say(self, kind: str, *fields: object) -> None:
        """Write one message."""
        line = memoryview(json.dumps([kind, *fields]).encode() + b"\n")
        with self._lock:
            while line:
                line = line[os.write(self._fd, line) :]

    def report_contents(self, log: Log, topic: str, consumer: str | None = None) -> None:
        """Say everything that a reader finds in the topic, and which topics there are."""
        found = []
        for partition in range(log.describe_topic(topic).settings.partitions):
            marks = log.marks(topic, partition)
            records = [
                (record.offset, record.kind, record.payload["n"])
                for record in log.read(topic, partition, marks.low, marks.high)
            ]
            cursor = None if consumer is None else log.cursor(topic, consumer, partition)
            found.append((partition, marks.low, marks.high, records, cursor))
        self.say("contents", found, [topic.name for topic in log.topics()])


def note(ledger: Ledger, message: Message) -> None:
    """Enter into the ledger what a message says."""
    kind, *fields = message
    match kind:
        case "offer":
            ledger.offer(*fields[:3])
        case "ack":
            ledger.acknowledge(fields[0], fields[1], [(p, o) for p, o in fields[2]])
        case "refused":
            ledger.refuse(*fields[:3])
        case "trimming" | "trimmed":
            rising = ledger.lows[fields[0]]
            (rising.ask if kind == "trimming" else rising.promise)(fields[1])
        case "acking" | "acked":
            rising = ledger.cursors[fields[0]]
            (rising.ask if kind == "acking" else rising.promise)(fields[1])
        case "creating" | "created":
            ledger.open_topic(fields[0], settled=kind == "created")
        case "dropping" | "dropped":
            ledger.drop_topic(fields[0], settled=kind == "dropped")


def contents(message: Message) -> tuple[dict[int, Stored], list[str]]:
    """Return what a contents message says."""
    _, found, topics = message
    stored = {
        partition: Stored(low, high, [(o, Value(kind, n)) for o, kind, n in records], cursor)
        for partition, low, high, records, cursor in found
    }
    return stored, topics


def check(ledger: Ledger, message: Message, where: str) -> None:
    """Raise AssertionError if what is stored breaks a rule."""
    findings = ledger.check(*contents(message))
    assert not findings, f"{where}: " + "; ".join(f"{f.rule}: {f.where}" for f in findings[:5])


def crash_of(messages: Iterable[Message]) -> str | None:
    """Return the traceback with which the process exited, if any."""
    return next((str(message[1]) for message in messages if message[0] == "crash"), None)
