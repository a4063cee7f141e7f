"""What is a SQLite log's own: files, reopening, syncs, modes."""

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from strandline.io import SystemIo
from strandline.log import AsyncLog, Log
from strandline.stores.sqlite import topics
from strandline.testing import FakeClock
from strandline.testing.faulty_io import FaultyIo
from strandline.values import (
    ClosedError,
    ConflictError,
    DivergedError,
    Durability,
    Event,
    FailedError,
    InvalidError,
    TrimmedError,
    UnavailableError,
)
from tests.logs import sqlite_log

DURABLE = Durability.DURABLE


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.sqlite")


@pytest.fixture
def log(path: str) -> Iterator[Log]:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        yield log


def events(count: int, start: int = 0) -> list[Event]:
    return [Event("order", {"n": number}) for number in range(start, start + count)]


def numbers(log: Log, start: int = 0) -> list[int]:
    return [record.payload["n"] for record in log.read("orders", 0, start)]


# --- reopening ---


def test_records_survive_reopening_and_offsets_continue(path: str, log: Log) -> None:
    """TE3."""
    log.append_many("orders", events(2))
    log_id = log.id
    log.close()

    with sqlite_log(path) as again:
        receipt = again.append("orders", Event("order", {"n": 2}))

        assert again.id == log_id
        assert receipt.offset == 2
        assert numbers(again) == [0, 1, 2]


def wal_bytes(path: str) -> int:
    wal = Path(f"{path}-wal")
    return wal.stat().st_size if wal.exists() else 0


def test_a_trim_leaves_no_write_ahead_log_te3(path: str, log: Log) -> None:
    """TE3, E15."""
    log.append_many("orders", events(2))
    before = wal_bytes(path)

    report = log.trim("orders", 0, 1)

    assert before > 0
    assert (report.removed, report.latest, report.is_released) == (1, 1, True)
    assert wal_bytes(path) == 0


def test_a_reader_in_the_way_delays_the_release_and_not_the_trim(path: str, log: Log) -> None:
    """E15."""
    log.append_many("orders", events(2))
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM strandline_records").fetchone()

    held = log.trim("orders", 0, 1)
    reader.close()
    free = log.trim("orders", 0, 2)

    assert (held.removed, held.is_released) == (1, False)
    assert (free.removed, free.is_released) == (1, True)


def test_flush_leaves_no_write_ahead_log_te3(path: str, log: Log) -> None:
    """TE3."""
    log.append_many("orders", events(2))
    log.trim("orders", 0, 1)

    log.flush()

    wal = Path(f"{path}-wal")
    assert not wal.exists() or wal.stat().st_size == 0
    assert log.marks("orders", 0).durable == 2
    assert numbers(log, 1) == [1]


def test_an_emptied_partition_keeps_its_head_after_reopening(path: str, log: Log) -> None:
    """WE1."""
    log.append_many("orders", events(3))
    log.trim("orders", 0, 3)
    log.close()

    with sqlite_log(path) as again:
        assert again.append("orders", Event("order", {"n": 3})).offset == 3
        assert [topic.name for topic in again.topics()] == ["orders"]
        with pytest.raises(TrimmedError):
            again.read("orders", 0, 0)


def test_identities_survive_reopening_and_trimming(path: str, log: Log) -> None:
    """WE16."""
    first = log.append("orders", Event("order"), idempotency_key="k")
    second = log.append("orders", Event("order"), producer="p", sequence=7)
    log.trim("orders", 0, 2)
    log.close()

    with sqlite_log(path) as again:
        key = again.append("orders", Event("order"), idempotency_key="k")
        sequence = again.append("orders", Event("order"), producer="p", sequence=7)

        assert (key.offset, key.is_repeat) == (first.offset, True)
        assert (sequence.offset, sequence.is_repeat) == (second.offset, True)
        assert sequence.timestamp_us == second.timestamp_us
        with pytest.raises(ConflictError):
            again.append("orders", Event("order"), producer="p", sequence=6)


def test_cursors_survive_reopening(path: str, log: Log) -> None:
    """WE2."""
    log.append_many("orders", events(3))
    log.ack("orders", "billing", 0, 2)
    log.close()

    with sqlite_log(path, mode="consume") as again:
        assert again.cursor("orders", "billing", 0) == 2
        assert again.ack("orders", "billing", 0, 1) == 2


def test_describe_counts_every_file(path: str, log: Log) -> None:
    log.append_many("orders", events(100))

    described = log.describe()

    files = [Path(path + tail) for tail in ("", "-wal", "-shm")]
    assert described.size_bytes == sum(file.stat().st_size for file in files)
    assert (described.backend, described.records) == ("sqlite", 100)


# --- durability ---


def test_durable_is_acknowledged_after_a_sync_only(path: str) -> None:
    """WE10."""
    io = FaultyIo(SystemIo())
    with sqlite_log(path, io=io) as log:
        log.create_topic("orders")
        before = io.count("sync")
        log.append("orders", Event("order"))
        between = io.count("sync")
        receipt = log.append("orders", Event("order"), durability=DURABLE)
        after = io.count("sync")

        assert (before, after) == (between, between + 1)
        assert receipt.level is DURABLE
        assert log.marks("orders", 0).durable == 2


def test_a_failed_sync_ends_the_writer_and_the_next_opener_moves_the_log(path: str) -> None:
    io = FaultyIo(SystemIo())
    log = sqlite_log(path, io=io)
    log.create_topic("orders")
    io.fail(nth=1, kinds={"sync"}, error=errno.EIO)

    with pytest.raises(FailedError):
        log.append("orders", Event("order", {"n": 0}), durability=DURABLE)
    with pytest.raises(FailedError):
        log.append("orders", Event("order", {"n": 1}))
    assert log.marks("orders", 0).durable == 0

    with sqlite_log(path) as again:
        again.append("orders", Event("order", {"n": 1}), durability=DURABLE)
        assert numbers(again) == [0, 1]
        assert again.marks("orders", 0).durable == 2
        assert Path(f"{path}-strandline.lock").read_bytes()[16:17] == b" "
    log.close()


def test_another_process_sees_the_durable_mark(path: str, log: Log) -> None:
    log.append_many("orders", events(5), durability=DURABLE)
    log.append("orders", Event("order", {"n": 5}))

    with sqlite_log(path, mode="read") as reader:
        assert reader.marks("orders", 0).durable == 5
        assert len(list(reader.read("orders", 0, 0, durable_only=True))) == 5
        assert len(list(reader.read("orders", 0, 0))) == 6


# --- epochs ---


def test_a_restored_copy_begins_an_epoch_and_later_positions_diverge(
    path: str, log: Log, tmp_path: Path
) -> None:
    log.append_many("orders", events(2))
    log.flush()
    copy = Path(path).read_bytes()
    log.append_many("orders", events(2))
    position = log.position("orders", 0, 4)
    log.ack("orders", "billing", 0, 4)
    log.close()
    (tmp_path / "copy").write_bytes(copy)
    os.replace(tmp_path / "copy", path)

    with sqlite_log(path) as again:
        again.append_many("orders", events(5))

        assert [epoch.start for epoch in again.epochs("orders", 0)] == [0, 2]
        with pytest.raises(DivergedError) as caught:
            again.resolve(position)
        assert caught.value.diverged_at == 2


# --- modes ---


def test_read_mode_changes_no_byte_of_the_database(path: str, log: Log) -> None:
    log.append_many("orders", events(3))
    log.close()
    before = Path(path).read_bytes()

    with sqlite_log(path, mode="read") as reader:
        assert numbers(reader) == [0, 1, 2]
        assert reader.position("orders", 0, 3).offset == 3
        for call in (
            lambda: reader.append("orders", Event("order")),
            lambda: reader.create_topic("more"),
            lambda: reader.ack("orders", "c", 0, 1),
            lambda: reader.trim("orders", 0, 1),
            reader.flush,
        ):
            with pytest.raises(InvalidError):
                call()

    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("mode", ["read", "consume"])
def test_other_modes_need_a_log(path: str, mode: str) -> None:
    with pytest.raises(InvalidError):
        sqlite_log(path, mode=mode)

    assert not Path(path).exists()


def test_a_log_is_kept_in_an_applications_own_database(path: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (n)")
        connection.execute("INSERT INTO mine VALUES (17)")
    connection.close()

    with pytest.raises(InvalidError):
        sqlite_log(path, mode="read")
    with sqlite_log(path) as log:
        log.create_topic("orders")
        log.append_many("orders", events(2))
        assert numbers(log) == [0, 1]

    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT n FROM mine").fetchall() == [(17,)]
    connection.close()


# --- the lock ---


def hold_lock(path: str) -> "subprocess.Popen[str]":
    script = (
        "import sys, strandline.io as i; io = i.SystemIo();"
        "fd = io.open(sys.argv[1], 'create'); assert io.try_lock(fd);"
        "io.pwrite(fd, b'%-12d' % __import__('os').getpid(), 0);"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, f"{path}-strandline.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.slow
def test_a_held_lock_hands_the_write_back_and_names_its_holder(path: str, log: Log) -> None:
    log.append("orders", Event("order", {"n": 0}))
    event = Event("order", {"n": 1})
    with hold_lock(path) as holder:
        with pytest.raises(UnavailableError) as caught:
            log.append("orders", event, timeout_s=0.05)
        with sqlite_log(path, lock_timeout_s=0.05) as other:
            assert numbers(other) == [0]
        holder.communicate()

    assert caught.value.write is event
    assert str(holder.pid) in str(caught.value)
    assert log.append("orders", event).offset == 1


@pytest.mark.slow
def test_a_deleted_lock_file_is_replaced(path: str, log: Log) -> None:
    log.append("orders", Event("order", {"n": 0}))
    os.unlink(f"{path}-strandline.lock")

    with hold_lock(path) as holder:
        with pytest.raises(UnavailableError):
            log.append("orders", Event("order"), timeout_s=0.05)
        holder.communicate()
    with sqlite_log(path) as other:
        other.append("orders", Event("order", {"n": 1}))
        log.append("orders", Event("order", {"n": 2}))

        assert numbers(other) == [0, 1, 2]


# --- the rest ---


@pytest.mark.slow
def test_a_forked_child_has_to_open_again(path: str, log: Log) -> None:
    log.append("orders", Event("order", {"n": 0}))
    script = f"""
import os
from strandline.values import ClosedError, Event
from tests.logs import sqlite_log
log = sqlite_log({path!r})
child = os.fork()
calls = (log.topics, lambda: log.append("orders", Event("order")), log.flush, log.describe)
if child == 0:
    told = 0
    for call in calls:
        try:
            call()
        except ClosedError:
            told += 1
    log.close()
    with sqlite_log({path!r}) as own:
        own.append("orders", Event("order", {{"n": 1}}))
    raise SystemExit(told)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
log.append("orders", Event("order", {{"n": 2}}))
log.close()
"""

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

    assert numbers(log) == [0, 1, 2]


def test_appends_on_a_loop_are_awaited(log: Log) -> None:
    async def main() -> None:
        receipt = AsyncLog(log).append("orders", Event("order", {"n": 0}))
        assert (await receipt).offset == 0
        assert (await receipt.wait(DURABLE)).level is DURABLE
        assert numbers(log) == [0]

    asyncio.run(main())


def test_a_failed_append_on_a_loop_is_reported_when_awaited(log: Log) -> None:
    async def main() -> None:
        receipt = AsyncLog(log).append("orders", Event("order"), expected_offset=3)
        with pytest.raises(ConflictError):
            await receipt

    asyncio.run(main())


def test_a_topic_recreated_elsewhere_is_found_by_its_name(path: str, log: Log) -> None:
    log.append("orders", Event("order", {"n": 0}))
    with sqlite_log(path) as other:
        other.drop_topic("orders")
        with pytest.raises(InvalidError):
            log.append("orders", Event("order"))
        topic = other.create_topic("orders")

    receipt = log.append("orders", Event("order", {"n": 1}))

    assert receipt.offset == 0
    assert log.topic("orders") == topic


@pytest.mark.slow
@pytest.mark.parametrize("name", ["load_log", "check_row"])
def test_topics_are_listed_while_another_process_creates_and_drops_some(
    path: str, log: Log, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    log.add_partitions("orders", 2)
    with sqlite_log(path) as other:

        def meanwhile() -> None:
            other.create_topic("new")
            other.drop_topic("orders")

        after_first_call(monkeypatch, topics, name, meanwhile)

        assert [each.name for each in log.topics()] == ["orders"]
        assert [each.name for each in log.topics()] == ["new"]


def after_first_call(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, then: Callable[[], None]
) -> None:
    """Call `then` once, when a function of a module has been called for the first time."""
    function = getattr(module, name)

    def calling(*args: object) -> object:
        found = function(*args)
        monkeypatch.undo()
        then()
        return found

    monkeypatch.setattr(module, name, calling)


def test_a_long_history_is_checkpointed_and_marked_durable(path: str) -> None:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        for _ in range(12):
            log.append_many("orders", [Event("order", "x" * 10_000)] * 300)

        assert Path(f"{path}-wal").stat().st_size < 32 * 1024 * 1024
        assert log.marks("orders", 0).durable > 0


@pytest.mark.slow
def test_old_producers_and_keys_are_removed_from_storage(path: str) -> None:
    clock = FakeClock()
    with sqlite_log(path, clock=clock) as log:
        log.create_topic("orders")
        for start in range(0, 4096, 512):
            log.append_many("orders", events(512), producer="p", sequence=start)
        with sqlite3.connect(path) as connection:
            kept = connection.execute("SELECT count(*) FROM strandline_sequences").fetchone()[0]
        connection.close()

        assert kept <= 2 * 1024
        assert log.append("orders", Event("order"), producer="p", sequence=3072).is_repeat
        with pytest.raises(ConflictError):
            log.append("orders", Event("order"), producer="p", sequence=3071)


def test_closed_is_closed(log: Log) -> None:
    log.close()
    log.close()

    for call in (log.topics, log.describe, log.flush, log.watch):
        with pytest.raises(ClosedError):
            call()


def test_a_database_behind_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    """SQLite would name its write-ahead log after the file, and we after the link."""
    real, link = tmp_path / "real.db", tmp_path / "link.db"
    sqlite_log(str(real)).close()
    link.symlink_to(real)

    with pytest.raises(InvalidError, match="symbolic link"):
        sqlite_log(str(link))

    assert not list(tmp_path.glob("link.db-*"))
