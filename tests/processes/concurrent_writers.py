"""Processes that write to one partition at once, and do not give up."""

import os
import random
import signal
from collections.abc import Callable
from typing import Any

from strandline.io import SystemIo
from strandline.testing.faulty_io import FaultyIo, Operation, OperationKind
from strandline.values import ClosedError, Durability, FailedError, Position, StrandlineError
from tests.processes.report import Report
from tests.processes.stores import open_store
from tests.processes.workloads import TOPIC, WRITES, Writer

LOCK_TIMEOUT_S = 0.3
UNLOCKS: tuple[OperationKind] = ("unlock",)
REPLACES: tuple[OperationKind] = ("replace",)


def contend(
    report: Report,
    *,
    url: str,
    producer: str,
    following: int,
    end: int,
    seed: int,
    retry: tuple[int, int] | None,
    options: dict[str, Any],
) -> None:
    """Append the numbers from `following` to `end`; open again whenever the log has ended.

    `retry` is an append whose outcome is unknown: it is repeated until it is known.
    """
    rng = random.Random(seed)
    writer = _opened(report, url, producer, following, options)
    while retry is not None and not writer.repeat(*retry, 0, timeout_s=LOCK_TIMEOUT_S):
        writer = _revived(writer, url)
    while writer.following < end:
        count = min(rng.choice([1, 1, 2, 4]), end - writer.following)
        first = writer.following
        level = rng.choice([Durability.WRITTEN, Durability.WRITTEN, Durability.DURABLE])
        while not writer.repeat(first, count, 0, level, timeout_s=LOCK_TIMEOUT_S):
            writer = _revived(writer, url)
        writer.following = first + count
    writer.log.close()
    report.say("finished")


def _opened(
    report: Report, url: str, producer: str, following: int, options: dict[str, Any]
) -> Writer:
    while True:
        try:
            log = open_store(url, lock_timeout_s=LOCK_TIMEOUT_S, **options)
        except StrandlineError as error:
            report.say("not opened", type(error).__name__, str(error))
        else:
            return Writer(report, log, producer, following)


def _revived(writer: Writer, url: str) -> Writer:
    if isinstance(writer.error, FailedError | ClosedError):
        writer.log.close()
        return _opened(writer.report, url, writer.producer, writer.following, {})
    return writer


def stop_while_holding(report: Report, url: str, producer: str) -> None:
    """Append once, and stop within it, just before the lock is released."""
    io = FaultyIo(SystemIo())
    with open_store(url, io=io) as log:
        writer = Writer(report, log, producer, 0)
        assert writer.append(0)

        io.before(1, _stopping(report), kinds=UNLOCKS)
        writer.append(0)
        io.clear_faults()
        report.say("awake")


def stop_before_writing(report: Report, *, url: str, producer: str) -> None:
    """Append, and stop within the next append, just before anything of it is written."""
    io = FaultyIo(SystemIo())
    with open_store(url, io=io) as log:
        writer = Writer(report, log, producer, 0)
        assert writer.append(0)
        io.before(1, _stopping(report), kinds=WRITES)
        writer.append(0)


def append_some(
    report: Report, *, url: str, producer: str, following: int, count: int, timeout_s: float
) -> None:
    """Append `count` numbers one by one, each with a deadline for the lock."""
    with open_store(url, lock_timeout_s=timeout_s) as log:
        writer = Writer(report, log, producer, following)
        for _ in range(count):
            writer.append(0)


def read_only(report: Report, url: str) -> None:
    """Report what is there, without a lock."""
    with open_store(url, mode="read") as log:
        report.report_contents(log, TOPIC)


def stop_at(report: Report, *, url: str, producer: str, nth: int, level: str, before: int) -> None:
    """Append `before` numbers, then stop before the `nth` I/O call of the next append."""
    io = FaultyIo(SystemIo())
    log = open_store(url, io=io)
    writer = Writer(report, log, producer, 0)
    for _ in range(before):
        assert writer.append(0)
    _stop(report)
    planned = io.before(nth, _stopping(report))
    writer.append(0, 2, Durability.parse(level))
    io.clear_faults()
    if not planned.fired:
        report.say("over")
    writer.append(0)
    log.close()


def append_when_awake(report: Report, *, url: str, producer: str) -> None:
    """Append once, stop, and append again: the same log object, which has seen it all."""
    with open_store(url) as log:
        writer = Writer(report, log, producer, 0)
        assert writer.append(0)
        _stop(report)
        for _ in range(2):
            assert writer.append(0), writer.error


def own(report: Report, *, url: str, producer: str) -> None:
    """Append as the exclusive writer, stop, append twice, and repeat the last append."""
    log = open_store(url, exclusive=True)
    writer = Writer(report, log, producer, 0)
    assert writer.append(0)
    for _ in range(2):
        _stop(report)
        for _ in range(2):
            writer.append(0)
    log.close()


def take_over(report: Report, *, url: str, producer: str) -> None:
    """Append, and take the partition over from its holder."""
    with open_store(url, lock_timeout_s=0.05, take_over=True) as log:
        writer = Writer(report, log, producer, 0)
        for _ in range(2):
            assert writer.append(0, 1, Durability.DURABLE), writer.error


def stop_while_taking_over(report: Report, *, url: str, producer: str, nth: int) -> None:
    """Take the partition over, stopped before the `nth` call after the lock is replaced."""
    io = FaultyIo(SystemIo())

    def stop_soon(_: Operation) -> None:
        io.before(nth, _stopping(report))

    replacing = io.before(1, stop_soon, kinds=REPLACES)
    with open_store(url, io=io, lock_timeout_s=0.001, take_over=True) as log:
        writer = Writer(report, log, producer, 0)
        writer.append(0, 2, Durability.DURABLE)
        assert replacing.fired
        io.clear_faults()
        report.say("over")
        writer.append(0)


def take_position(report: Report, *, url: str) -> None:
    """Say where the partition ends, in the form in which it may be stored."""
    with open_store(url) as log:
        position = log.position(TOPIC, 0, log.marks(TOPIC, 0).high)
        report.say("position", position.to_json().decode())


def resolve(report: Report, *, url: str, position: str) -> None:
    """Report how a stored position resolves."""
    with open_store(url) as log:
        try:
            report.say("resolved", log.resolve(Position.from_json(position.encode())))
        except StrandlineError as error:
            report.say("resolved", type(error).__name__)


def _stopping(report: Report) -> Callable[[Operation], None]:
    return lambda _: _stop(report)


def _stop(report: Report) -> None:
    report.say("stopping")
    os.kill(os.getpid(), signal.SIGSTOP)
