"""Single plain events take a short way into a database: it keeps every rule of the usual one."""

import contextlib
import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.clock import SystemClock
from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.sqlite.appends import AppendBracket
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.event_appends import EventAppends
from strandline.stores.sqlite.lone_insert import LoneInsert
from strandline.testing import FakeClock, FaultyIo
from strandline.values import ClosedError, Durability, Event, FullError, Mode, UnavailableError
from tests.core.plain import needs_core
from tests.logs import sqlite_log
from tests.planting import Bug

pytestmark = needs_core


#: So many that a partition's row is stored several times meanwhile.
COUNT = 1000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.sqlite")


def event(number: int, size: int = 0) -> Event:
    return Event("order", {"n": number, "text": "x" * size}, key="key")


def numbers(log: Log) -> list[int]:
    return [record.payload["n"] for record in log.read("orders", 0, 0)]


def check_rows(path: str) -> None:
    """Times never fall, and the partition counts as much as that of a list of the same events."""
    clock = FakeClock()
    with sqlite_log(path, clock=clock) as log:
        log.create_topic("orders")
        log.create_topic("listed")
        start_us = clock.now_us()
        for number in range(COUNT):
            clock.set_now_us(start_us + number % 2)
            log.append("orders", event(number))
        log.append_many("listed", [event(number) for number in range(COUNT)])

        assert numbers(log) == list(range(COUNT))
        times = [record.timestamp_us for record in log.read("orders", 0, 0)]
        assert times == sorted(times)
        (single,), (listed,) = log.segments("orders", 0), log.segments("listed", 0)
        assert (single.end, single.size_bytes) == (listed.end, listed.size_bytes)
        counted = [log.metrics().topics[log.topic(name)] for name in ("orders", "listed")]
        assert [each.records for each in counted] == [COUNT, COUNT]
        assert counted[0].bytes == counted[1].bytes
        assert counted[0].appends == COUNT


def check_sizes(path: str) -> None:
    """Sizes are right in each of several logs: one whose row was read again counts them again."""
    for number in range(5):
        check_rows(f"{path}-{number}")


def check_durable(path: str) -> None:
    """A durable append is, and its mark reaches the database."""
    # Once a second of the clock, an append goes the usual way.
    with sqlite_log(path, clock=FakeClock()) as log:
        log.create_topic("orders")
        for number in range(3):
            receipt = log.append("orders", event(number), durability="durable")
            assert receipt.level is Durability.DURABLE
        assert log.marks("orders", 0).durable == 3
    with sqlite_log(path, mode="read") as log:
        assert log.marks("orders", 0).durable == 3


def check_full(path: str) -> None:
    """A full disk hands the event back, and the log continues."""
    disk = FaultyIo(SystemIo())
    with sqlite_log(path, io=disk) as log:
        log.create_topic("orders")
        for number in range(3):
            log.append("orders", event(number))
        disk.fail(1, errno.ENOSPC, kinds=["preallocate"], forever=True)
        refused = event(3, 200_000)
        with pytest.raises(FullError) as caught:
            log.append("orders", refused)
        assert caught.value.write == refused
        disk.clear_faults()

        assert log.append("orders", event(3)).offset == 3
        assert numbers(log) == [0, 1, 2, 3]


def check_unreadable(path: str) -> None:
    """A file that cannot be looked at for a moment refuses one append, and the log continues."""
    disk = FaultyIo(SystemIo())
    with sqlite_log(path, io=disk) as log:
        log.create_topic("orders")
        for number in range(3):
            log.append("orders", event(number))
        disk.fail(1, errno.EIO, kinds=["stat"], forever=True)
        with pytest.raises(UnavailableError):
            log.append("orders", event(3, 200_000))
        disk.clear_faults()

        assert log.append("orders", event(3)).offset == 3


def check_dropped(path: str) -> None:
    """A topic that another log drops and creates again begins again."""
    with sqlite_log(path) as log, sqlite_log(path) as other:
        log.create_topic("orders")
        for number in range(3):
            log.append("orders", event(number))
        other.drop_topic("orders")
        other.create_topic("orders")

        assert log.append("orders", event(7)).offset == 0
        assert numbers(other) == [7]


def check_transaction(path: str) -> None:
    """An append inside a transaction is part of it."""
    with sqlite_log(path) as log:
        log.create_topic("orders")
        for number in range(3):
            log.append("orders", event(number))
        with contextlib.suppress(ZeroDivisionError), log.transaction():
            log.append("orders", event(3))
            raise ZeroDivisionError

        assert log.append("orders", event(4)).offset == 3


def check_turns(path: str) -> None:
    """What other processes have appended since is found, also where they lock another file."""
    with sqlite_log(path) as log, sqlite_log(path) as other:
        log.create_topic("orders")
        for number in range(0, 40, 2):
            log.append("orders", event(number))
            if number % 8 == 0:
                Path(f"{path}-strandline.lock").unlink()
            other.append("orders", event(number + 1))

        assert numbers(log) == list(range(40))


CHECKS: list[Callable[[str], None]] = [
    *(check_rows, check_durable, check_full, check_unreadable, check_dropped, check_transaction),
    check_turns,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_rules_of_an_append(path: str, check: Callable[[str], None]) -> None:
    check(path)


def test_a_closed_log_reports_it(path: str) -> None:
    log = sqlite_log(path)
    log.create_topic("orders")
    log.append("orders", event(0))
    log.append("orders", event(1))
    log.close()

    with pytest.raises(ClosedError):
        log.append("orders", event(2))


def test_others_are_looked_for_inside_of_the_lock_of_sqlite(path: str) -> None:
    """A process that writes after the look would be missed."""
    database = Database(path, Mode.WRITE, SystemIo(), SystemClock(), 5.0)
    stranger = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    answers = [True, False]
    met: list[str] = []

    def look() -> bool:
        with pytest.raises(sqlite3.OperationalError) as caught:
            stranger.execute("BEGIN IMMEDIATE")
        met.append(str(caught.value))
        return answers[len(met) - 1]

    with database.locked():
        database.lock.look = look
        insert = LoneInsert(database)
        stored = [insert.store((place, 0, None, "k", b"", None, None, 0, 0)) for place in (1, 2)]
        stranger.execute("BEGIN IMMEDIATE")
        stored.append(insert.store((3, 0, None, "k", b"", None, None, 0, 0)))

    assert met == ["database is locked"] * 2
    assert stored == [True, False, False]
    places = stranger.execute("SELECT place FROM strandline_records").fetchall()
    assert places == [(1,)]
    stranger.close()
    database.close()


BUGS = [
    (
        Bug("the time is not kept", EventAppends, "_store", "row.last_us = now_us", "pass"),
        check_rows,
    ),
    (
        Bug("the size is not kept", EventAppends, "_store", "row.size_bytes += size_bytes", "pass"),
        check_sizes,
    ),
    (
        Bug("the head stays", EventAppends, "_store", "row.high = start + 1", "pass"),
        check_rows,
    ),
    (
        Bug(
            "a sync covers nothing",
            EventAppends,
            "_store",
            "self._marks.wrote_one(self._slot, start + 1)",
            "pass",
        ),
        check_durable,
    ),
    (
        Bug("no look at the reserve", EventAppends, "append_event", "_.admit(size_bytes)", "None"),
        check_full,
    ),
    (
        Bug("a block goes unnoticed", AppendBracket, "hold", "lock.try_acquire()", "True"),
        check_transaction,
    ),
    (
        Bug("nothing stored is stored", LoneInsert, "store", "cursor.rowcount == 1", "True"),
        check_turns,
    ),
]


@pytest.mark.parametrize(("bug", "check"), BUGS, ids=[str(bug) for bug, _ in BUGS])
def test_a_planted_bug_is_noticed(path: str, bug: Bug, check: Callable[[str], None]) -> None:
    with bug.planted(), pytest.raises(BaseException):  # noqa: B017, PT011 - Whatever notices.
        check(path)
