"""The tail as shared memory: the same bytes for each process, and nothing that ends one."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.clock import SystemClock
from strandline.io import FileWatcher, machine
from strandline.log import Log
from strandline.stores.files import compiled_lane, partition_writer, store
from strandline.stores.files.tail import END_BYTES, TAIL_BYTES, pack_end, unpack
from tests.core.plain import needs_core
from tests.core.test_lane import events, fast, lane_of
from tests.logs import file_log

pytestmark = [
    needs_core,
    pytest.mark.skipif(
        sys.platform != "linux" or not machine.has_shared_memory(os.getcwd()),
        reason="tails are shared memory on Linux, on local file systems",
    ),
]


@pytest.fixture(params=[False, True], ids=["shared", "exclusive"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with sl.open(f"file:{tmp_path}/log", exclusive=request.param) as made:
        made.create_topic("t")
        fast(made)
        assert lane_of(made).is_mapped
        yield made


def tail_of(tmp_path: Path) -> Path:
    (tail,) = tmp_path.rglob("*.tail")
    return tail


def plain_log(path: Path, patch: pytest.MonkeyPatch, **options: object) -> Log:
    """Return a log of which plain Python writes the events."""
    with patch.context() as inner:
        inner.setattr(compiled_lane, "IS_COMPILED", False)
        log = file_log(str(path), **options)
        # The way into a partition is made with the first append.
        log.append("t", sl.Event("plain"))
    return log


def test_a_reader_of_the_file_finds_each_end_as_plain_python_writes_it(
    log: Log, tmp_path: Path
) -> None:
    tail = tail_of(tmp_path)
    topic = log._store.topics()[0]  # noqa: SLF001 - For its identity.
    place = topic.partitions[0].place
    before = tail.read_bytes()
    for number, event in enumerate(events(200), start=2):
        log.append("t", event)
        raw = tail.read_bytes()
        seed = place.tail_seed(0)
        end = unpack(seed, raw).end
        assert end is not None
        assert end.next == number
        assert raw[:END_BYTES] == pack_end(seed, end)
        # All else is as it was: neither a mark nor a fence.
        assert raw[END_BYTES:] == before[END_BYTES:]
    assert lane_of(log).appends
    assert len(before) == TAIL_BYTES


def test_writers_with_and_without_the_core_share_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file:{tmp_path}/log"
    with sl.open(url) as log:
        log.create_topic("t")
        fast(log)
        with plain_log(tmp_path / "log", monkeypatch) as other:
            for number in range(200):
                (log, other)[number % 2].append("t", sl.Event("k", number))
            for each in (log, other):
                found = [record.payload for record in each.read("t", 0, 2)]
                assert found == list(range(200))
        assert all(report.is_sound for report in log.verify("t"))
        assert lane_of(log).appends


def test_reading_changes_no_byte_of_a_tail(log: Log, tmp_path: Path) -> None:
    tail = tail_of(tmp_path)
    for event in events(10):
        log.append("t", event)
    before, changed_ns = tail.read_bytes(), tail.stat().st_mtime_ns
    with sl.open(f"file:{tmp_path}/log", mode="read") as reader:
        assert len(list(reader.read("t", 0, 0))) == 11
        with reader.subscribe("t") as subscription:
            assert next(subscription).offset == 0
    assert (tail.read_bytes(), tail.stat().st_mtime_ns) == (before, changed_ns)


@pytest.mark.parametrize("length", [0, 1, END_BYTES, TAIL_BYTES])
def test_a_tail_that_is_truncated_ends_neither_the_process_nor_the_log(
    log: Log, tmp_path: Path, length: int
) -> None:
    os.truncate(tail_of(tmp_path), length)
    stored = 1
    for event in events(20):
        try:
            log.append("t", event)
        except (sl.UnknownError, sl.FailedError, sl.UnavailableError, sl.ClosedError):
            break
        stored += 1
    log.close()

    with sl.open(f"file:{tmp_path}/log") as again:
        again.append("t", sl.Event("after"))
        found = list(again.read("t", 0, 0))
        assert [each.offset for each in found] == list(range(len(found)))
        # What was acknowledged, and at most the one of which it is unknown.
        assert len(found) in (stored + 1, stored + 2)
        assert all(report.is_sound for report in again.verify("t"))


def test_a_store_into_a_truncated_tail_is_an_append_of_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else Python has a look after a while, and the core appends no more.
    monkeypatch.setattr(partition_writer, "_OWN_CHECK_S", 3600.0)
    with sl.open(f"file:{tmp_path}/log", exclusive=True) as log:
        log.create_topic("t")
        fast(log)
        lane, tail, event = lane_of(log), tail_of(tmp_path), sl.Event("k")
        with pytest.raises(OSError, match="Input/output error") as caught:  # noqa: PT012 - Any of them.
            # Some are written in place of stored, for those who watch the file.
            while True:
                os.truncate(tail, 0)
                assert lane.append(event, 1_000) is not NotImplemented

        assert caught.value.errno == errno.EIO
        assert lane.is_broken


def test_a_fence_is_found_in_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python has no look at the partition, so that only the core can see the fence.
    monkeypatch.setattr(partition_writer, "_OWN_CHECK_S", 3600.0)
    path = str(tmp_path / "log")
    with file_log(path, exclusive=True) as old:
        old.create_topic("t")
        fast(old)
        assert lane_of(old).is_mapped
        with file_log(path, exclusive=True, take_over=True, lock_timeout_s=0.01) as new:
            new.append("t", sl.Event("new"))
            with pytest.raises((sl.ClosedError, sl.UnknownError)):
                old.append("t", sl.Event("old"))
            assert [each.kind for each in new.read("t", 0, 0)] == ["first", "new"]


def test_a_lock_that_another_process_keeps_is_left_to_python(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
        fast(log)
        (path,) = tmp_path.rglob("0/lock")
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert lane_of(log).append(sl.Event("k"), 1_000) is NotImplemented
        assert log.append("t", sl.Event("k")).offset == 1
        assert lane_of(log).appends


def test_an_append_after_the_lock_file_was_removed_begins_an_epoch_and_loses_nothing(
    tmp_path: Path,
) -> None:
    with sl.open(f"file:{tmp_path}/log") as log, sl.open(f"file:{tmp_path}/log") as other:
        log.create_topic("t")
        fast(log)
        (path,) = tmp_path.rglob("0/lock")
        path.unlink()
        # One of them by the new lock, the other perhaps by the old one for a moment.
        for number in range(1, 100):
            assert (log, other)[number % 2].append("t", sl.Event("k", number)).offset == number
        assert [each.payload for each in log.read("t", 0, 1)] == list(range(1, 100))
        assert len(log.epochs("t", 0)) == 2
        assert all(report.is_sound for report in log.verify("t"))


def test_a_pause_of_the_writer_lets_watchers_of_the_file_notice_the_next_end(
    log: Log, tmp_path: Path
) -> None:
    clock = SystemClock()
    watcher = FileWatcher()
    try:
        watcher.add(str(tail_of(tmp_path).parent))
        for event in events(5):
            rested_at = clock.monotonic() + 0.001
            while clock.monotonic() < rested_at:
                pass
            while watcher.wait(0):
                pass
            log.append("t", event)
            assert watcher.wait(60)
    finally:
        watcher.close()


def test_where_memory_cannot_be_shared_the_tail_is_written_and_describe_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sl.open(f"file:{tmp_path}/mapped") as log:
        assert log.describe().core == "compiled"
    monkeypatch.setattr(store, "has_shared_memory", lambda _path: False)
    with sl.open(f"file:{tmp_path}/written") as log:
        log.create_topic("t")
        fast(log)
        for event in events(10):
            log.append("t", event)
        assert not lane_of(log).is_mapped
        assert lane_of(log).appends
        assert log.describe().core == "compiled, without shared memory on this file system"
        assert len(list(log.read("t", 0, 0))) == 11


def test_a_file_system_of_an_unknown_kind_is_not_trusted_with_shared_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for kind, is_trusted in (("ext4", True), ("tmpfs", True), ("nfs4", False), ("fuse", False)):
        monkeypatch.setattr(machine, "_kind_by_device", lambda *_, kind=kind: kind)
        assert machine.has_shared_memory(str(tmp_path)) is is_trusted


FAULTS = """
import faulthandler, mmap, os, signal, sys, tempfile
import strandline as sl
how, path = sys.argv[1:]
with sl.open(f"file:{path}/log") as log:
    log.create_topic("t")
    if how == "before":
        faulthandler.enable()
    for _ in range(10):
        log.append("t", sl.Event("k"))
    if how == "after":
        faulthandler.enable()
        # Python leaves the partition once more, and the core sees to its handler.
        log.sync("t", 0)
        log.append_many("t", [sl.Event("k")], producer="p", sequence=1)
        log.append("t", sl.Event("k"))
    print("ready", flush=True)
    if how == "sent":
        os.kill(os.getpid(), signal.SIGBUS)
    else:
        with open(f"{path}/own", "w+b") as file:
            file.truncate(4096)
            page = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
            page[0]
print("alive")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "before", "after", "sent"])
def test_a_bus_error_that_is_not_about_a_tail_ends_the_process_as_ever(
    how: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAULTS, how, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.stdout == "ready\n"
    assert ended.returncode == -signal.SIGBUS
    if how in ("before", "after"):
        assert "Fatal Python error: Bus error" in ended.stderr


def test_a_copy_of_the_directory_made_while_it_is_open_has_what_was_appended(
    log: Log, tmp_path: Path
) -> None:
    for event in events(50):
        log.append("t", event)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    log.append("t", sl.Event("original"))

    with sl.open(f"file:{tmp_path}/copy") as copy:
        assert copy.append("t", sl.Event("copy")).offset == 51
        assert [each.kind for each in copy.read("t", 0, 50)] == ["order.created", "copy"]
        assert all(report.is_sound for report in copy.verify("t"))
    assert [each.kind for each in log.read("t", 0, 50)] == ["order.created", "original"]


def test_a_closed_log_has_no_memory_of_its_tails(log: Log) -> None:
    lane = lane_of(log)
    log.close()

    assert not lane.is_mapped
    assert lane.append(sl.Event("k"), 1_000) is NotImplemented


def test_a_child_of_a_fork_changes_no_byte_of_its_parents_tail(log: Log, tmp_path: Path) -> None:
    for event in events(10):
        log.append("t", event)
    before = tail_of(tmp_path).read_bytes()
    child = os.fork()
    if not child:
        try:
            log.append("t", sl.Event("child"))
        except sl.ClosedError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert tail_of(tmp_path).read_bytes() == before
    assert log.append("t", sl.Event("parent")).offset == 11
