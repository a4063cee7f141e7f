"""Processes that write rows and events together, and concurrent readers."""

import itertools
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import strandline.stores.sqlite
from strandline.log import Log
from strandline.subscriptions import subscribe
from strandline.values import Event
from tests.processes.report import Report
from tests.processes.stores import open_store

TOPIC = "orders"
#: Where each line may be the last.
FOLDER = str(Path(strandline.stores.sqlite.__file__).parent)


class ChangedItsMindError(Exception):
    """Leaves a block that is not to be committed."""


def create(report: Report, *, url: str) -> None:
    """Make the log, and a table of the application's own in it."""
    del report
    with open_store(url) as log:
        log.create_topic(TOPIC)
        with log.transaction() as connection:
            connection.execute("CREATE TABLE orders (producer TEXT, number INTEGER)")


class Workload:
    """A writer: each value is offered before it is written, and its outcome reported afterwards."""

    def __init__(self, report: Report, log: Log, producer: str, following: int) -> None:
        self._report = report
        self._log = log
        self._producer = producer
        self._next = following

    def append(self) -> None:
        """Append an event that has no row."""
        first = self._offer(1)
        self._acknowledge(first, [self._log.append(TOPIC, self._event(first, has_row=False))])

    def commit(self, count: int, *, rows_first: bool) -> None:
        """Write so many rows and events together."""
        first = self._offer(count)
        with self._log.transaction() as connection:
            if rows_first:
                self._write_rows(connection, first, count)
            receipts = [self._log.append(TOPIC, self._event(first, has_row=True))]
            rest = [self._event(number, has_row=True) for number in self._numbers(first, count)]
            receipts += self._log.append_many(TOPIC, rest[1:])
            if not rows_first:
                self._write_rows(connection, first, count)
        self._acknowledge(first, receipts)

    def roll_back(self, count: int) -> None:
        """Write so many, and change one's mind."""
        first = self._offer(count, is_doomed=True)
        try:
            with self._log.transaction() as connection:
                self._write(connection, first, count)
                raise ChangedItsMindError
        except ChangedItsMindError:
            pass

    def go_back(self, count: int) -> None:
        """Write some, take them back to a savepoint, and write others."""
        doomed = self._offer(count, is_doomed=True)
        first = self._offer(1)
        with self._log.transaction() as connection:
            connection.execute("SAVEPOINT mine")
            self._write(connection, doomed, count)
            connection.execute("ROLLBACK TO mine")
            self._write_rows(connection, first, 1)
            receipt = self._log.append(TOPIC, self._event(first, has_row=True))
        self._acknowledge(first, [receipt])

    def _write(self, connection: sqlite3.Connection, first: int, count: int) -> None:
        self._write_rows(connection, first, count)
        for number in self._numbers(first, count):
            self._log.append(TOPIC, self._event(number, has_row=True))

    def _write_rows(self, connection: sqlite3.Connection, first: int, count: int) -> None:
        rows = [(self._producer, number) for number in self._numbers(first, count)]
        connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)

    def _event(self, number: int, *, has_row: bool) -> Event:
        return Event(self._producer, {"n": number, "row": has_row})

    def _numbers(self, first: int, count: int) -> range:
        return range(first, first + count)

    def _offer(self, count: int, *, is_doomed: bool = False) -> int:
        first, self._next = self._next, self._next + count
        self._report.say("offer", self._producer, first, count)
        if is_doomed:
            # Said before it is tried: it may not be visible even if this is the last line.
            self._report.say("refused", self._producer, first, count)
        return first

    def _acknowledge(self, first: int, receipts: Any) -> None:
        places = [(receipt.partition, receipt.offset) for receipt in receipts]
        self._report.say("ack", self._producer, first, places)


def write(report: Report, *, url: str, producer: str, following: int, seed: int) -> None:
    """Write until killed, or until stopped."""
    chance = random.Random(seed)
    with open_store(url) as log:
        workload = Workload(report, log, producer, following)
        while True:
            match chance.randrange(6):
                case 0:
                    workload.append()
                case 1:
                    workload.roll_back(chance.randrange(1, 4))
                case 2:
                    workload.go_back(chance.randrange(1, 4))
                case _:
                    workload.commit(chance.randrange(1, 5), rows_first=chance.random() < 0.5)


def be_killed_at_line(report: Report, *, url: str, nth: int) -> None:
    """Live through one of each, and be killed at the `nth` line of the log that is run."""
    lines = itertools.count(1)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if event == "line" and next(lines) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    with open_store(url) as log:
        workload = Workload(report, log, "p", 0)
        sys.settrace(trace)
        workload.commit(2, rows_first=True)
        workload.append()
        workload.go_back(1)
        workload.roll_back(1)
        workload.commit(1, rows_first=False)
        sys.settrace(None)
        report.say("survived", next(lines))


def look(report: Report, *, url: str) -> None:
    """Compare rows and events at one moment after the other, until killed."""
    for rows, events in snapshots(url):
        if rows != events:
            report.say("torn", sorted(rows ^ events)[:4])


def snapshots(url: str) -> Iterator[tuple[set[tuple[str, int]], set[tuple[str, int]]]]:
    """Yield the rows, and the events that ought to have one, as one look finds them."""
    with open_store(url, mode="read"):
        connection = sqlite3.connect(f"file:{url.partition(':')[2]}?mode=ro", uri=True, timeout=20)
        while True:
            connection.execute("BEGIN")
            rows = set(connection.execute("SELECT producer, number FROM orders"))
            found = connection.execute("SELECT kind, value FROM strandline_records").fetchall()
            connection.execute("COMMIT")
            payloads = [(kind, json.loads(value)) for kind, value in found]
            yield rows, {(kind, payload["n"]) for kind, payload in payloads if payload["row"]}


def tail(report: Report, *, url: str) -> None:
    """Say each record as it comes, until killed."""
    with open_store(url, mode="read") as log:
        for record in subscribe(log, TOPIC):
            assert record.payload is not None
            report.say("came", record.offset, record.kind, record.payload["n"])


def read_back(report: Report, *, url: str) -> None:
    """Say what is there: events, rows, and whether the two agree."""
    with open_store(url) as log:
        report.report_contents(log, TOPIC)
        rows, events = next(snapshots(url))
        if rows != events:
            report.say("torn", sorted(rows ^ events)[:4])
