"""Heads that lag behind their records: no reader sees it, and damage is still found."""

import errno
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.clock import SystemClock
from strandline.io import SystemIo
from strandline.locks import Signal
from strandline.log import Log
from strandline.stores.sqlite import describe_sqlite, logged_bytes
from strandline.stores.sqlite.store_lock import StoreLock
from strandline.testing import FaultyIo
from strandline.values import (
    CorruptError,
    Durability,
    Event,
    FailedError,
    InvalidError,
    Marks,
    Offset,
)
from tests.logs import sqlite_log

DURABLE = Durability.DURABLE
MOVED_BYTES = 128 * 1024
ACKS = 300


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.sqlite")


@pytest.fixture
def log(path: str) -> Iterator[Log]:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        yield log


def numbers(log: Log) -> list[int]:
    return [record.payload["n"] for record in log.read("orders", 0, 0)]


def remove_the_third(path: str) -> None:
    with sqlite3.connect(path) as connection:
        removed = connection.execute("DELETE FROM strandline_records WHERE place & 2")
        assert removed.rowcount == 1
    connection.close()


def test_the_newest_of_single_appends_is_missed_when_it_is_gone(path: str, log: Log) -> None:
    """A head may lag behind its records while the log is open, and not in a closed one."""
    for n in range(3):
        log.append("orders", Event("order", {"n": n}))
    log.close()
    remove_the_third(path)

    with sqlite_log(path) as again:
        assert again.marks("orders", 0).high == 3
        with pytest.raises(CorruptError):
            list(again.read("orders", 0, 0))


def test_the_newest_is_missed_also_when_the_log_had_failed_before_it_was_closed(
    path: str,
) -> None:
    io = FaultyIo(SystemIo())
    with sqlite_log(path, io=io) as log:
        log.create_topic("orders")
        log.append("orders", Event("order", {"n": 0}))
        log.append("orders", Event("order", {"n": 1}))
        io.fail(1, errno.EIO, kinds=["sync"])
        with pytest.raises(FailedError):
            log.append("orders", Event("order", {"n": 2}), durability=DURABLE)
    remove_the_third(path)

    with sqlite_log(path) as again:
        assert again.marks("orders", 0).high == 3
        with pytest.raises(CorruptError):
            list(again.read("orders", 0, 0))


def test_the_newest_is_missed_also_after_the_repair_of_a_failed_sync(path: str, log: Log) -> None:
    """The repair moves the records of all who have the log open, or were killed with it open."""
    io = FaultyIo(SystemIo())
    log.create_topic("others")
    with sqlite_log(path, io=io) as failed, sqlite_log(path) as repairing:
        for n in range(3):
            log.append("orders", Event("order", {"n": n}))
        io.fail(1, errno.EIO, kinds=["sync"])
        with pytest.raises(FailedError):
            failed.append("others", Event("order"), durability=DURABLE)

        repairing.append("others", Event("order"), durability=DURABLE)

        assert Path(f"{path}-wal").stat().st_size == 0
        remove_the_third(path)
        assert repairing.marks("orders", 0).high == 3
        with pytest.raises(CorruptError):
            list(repairing.read("orders", 0, 0))


def test_a_gap_beyond_the_head_is_detected(path: str, log: Log) -> None:
    for n in range(3):
        log.append("orders", Event("order", {"n": n}))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM strandline_records WHERE place & 1")
    connection.close()

    with sqlite_log(path, mode="read") as reader, pytest.raises(CorruptError):
        reader.marks("orders", 0)


@pytest.mark.slow
def test_single_appends_are_seen_by_others_at_once(path: str, log: Log) -> None:
    with sqlite_log(path, mode="read") as reader:
        for n in range(150):
            log.append("orders", Event("order", {"n": n}))

            assert reader.marks("orders", 0).high == n + 1
            assert reader.describe().records == n + 1
            assert describe_sqlite(path).records == n + 1
            description = reader.describe_topic("orders")
            assert description.size_bytes == log.describe_topic("orders").size_bytes > 5 * n
        assert numbers(reader) == list(range(150))


def test_logs_that_take_turns_find_each_others_single_appends(path: str, log: Log) -> None:
    """Also within one process, where the holders of the lock have one number."""
    with sqlite_log(path) as other:
        offsets = [each.append("orders", Event("order")).offset for each in (log, other) * 70]

    assert offsets == list(range(140))


def test_what_others_append_is_found_also_where_the_lock_was_ours_since(
    path: str, log: Log
) -> None:
    with sqlite_log(path) as other:
        for _ in range(3):
            log.append("orders", Event("order"))
            other.append("orders", Event("order"))
            log.flush()

    assert log.append("orders", Event("order")).offset == 6


def test_a_trim_of_all_single_appends_leaves_their_end(path: str, log: Log) -> None:
    for n in range(5):
        log.append("orders", Event("order", {"n": n}))

    log.trim("orders", 0, 5)

    assert log.marks("orders", 0) == Marks(Offset(5), Offset(5), Offset(5))
    assert log.append("orders", Event("order")).offset == 5
    assert log.describe_topic("orders").size_bytes > 0


def test_a_sync_and_a_close_leave_the_durable_mark_to_others(path: str, log: Log) -> None:
    with sqlite_log(path, mode="read") as reader:
        log.append("orders", Event("order"))
        log.sync("orders", 0)
        assert reader.marks("orders", 0).durable == 1

        log.append("orders", Event("order"), durability=DURABLE)
        log.close()
        assert reader.marks("orders", 0).durable == 2


def test_a_topic_dropped_elsewhere_is_missed_by_the_next_single_append(path: str, log: Log) -> None:
    topic = log.topic("orders")
    log.append(topic, Event("order"))
    with sqlite_log(path) as other:
        other.drop_topic("orders")

    with pytest.raises(InvalidError):
        log.append(topic, Event("order"))
    with pytest.raises(InvalidError):
        log.append("orders", Event("order"))


def test_an_append_that_meets_a_new_lock_file_continues_after_the_others(
    path: str, log: Log
) -> None:
    with sqlite_log(path) as other:
        for n in range(0, 20, 2):
            log.append("orders", Event("order", {"n": n}))
            Path(f"{path}-strandline.lock").unlink()
            other.append("orders", Event("order", {"n": n + 1}))

        assert numbers(log) == list(range(20))


class WaitingClock(SystemClock):
    """Does something of the test's when its owner waits for the first time."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile: Callable[[], None] | None = meanwhile

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().wait(event, timeout_s)


def test_a_writer_that_waits_with_a_removed_lock_file_is_seen_by_the_next(
    path: str, log: Log
) -> None:
    """It holds a lock that excludes no process, and begins after one that holds the new lock."""
    stranger = sqlite3.connect(path, isolation_level=None)
    newcomers: list[Log] = []

    def meanwhile() -> None:
        Path(f"{path}-strandline.lock").unlink()
        stranger.execute("ROLLBACK")
        newcomers.append(sqlite_log(path))
        newcomers[0].append("orders", Event("order", {"n": 0}))

    with sqlite_log(path, clock=WaitingClock(meanwhile)) as waiting:
        stranger.execute("BEGIN IMMEDIATE")
        waiting.append("orders", Event("order", {"n": 1}))
        newcomers[0].append("orders", Event("order", {"n": 2}))
        waiting.append("orders", Event("order", {"n": 3}))
    newcomers[0].close()
    stranger.close()

    assert numbers(log) == [0, 1, 2, 3]


def test_an_append_is_stored_though_its_log_cannot_be_tidied(
    path: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process comes by the lock, whose file was removed, between the two."""
    other = StoreLock(SystemIo(), SystemClock(), f"{path}-strandline.lock")

    def take_over(_: object) -> None:
        Path(f"{path}-strandline.lock").unlink()
        other.acquire(1.0)

    io = FaultyIo(SystemIo())
    with sqlite_log(path, io=io, lock_timeout_s=0.05) as first:
        first.append("orders", Event("order", {"n": 0}))
        monkeypatch.setattr(logged_bytes, "CHECKPOINT_BYTES", 1)
        # The first look at the lock's file is the append's own.
        planned = io.before(2, take_over, kinds=["identity"])

        assert first.append("orders", Event("order", {"n": 1})).offset == 1

        assert planned.fired
        other.release()
        assert first.append("orders", Event("order", {"n": 2})).offset == 2
    other.close()
    assert numbers(log) == [0, 1, 2]


def test_what_only_consumers_write_is_moved_into_the_database(
    path: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_bytes, "CHECKPOINT_BYTES", MOVED_BYTES)
    log.append_many("orders", [Event("order", {"n": n}) for n in range(ACKS)])

    for end in range(1, ACKS + 1):
        log.ack("orders", "billing", 0, end)

    assert Path(f"{path}-wal").stat().st_size < 3 * MOVED_BYTES
    assert log.cursor("orders", "billing", 0) == ACKS
