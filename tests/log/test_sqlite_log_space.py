"""Zeros ahead of the write-ahead log's end: single appends write over them, and nothing is lost."""

import errno
import shutil
import sqlite3
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.sqlite.log_space import PIECE_BYTES, SMALL_BYTES, LogSpace
from strandline.testing import FaultyIo
from strandline.values import Event
from tests.core.plain import needs_core
from tests.logs import sqlite_log
from tests.planting import Bug

#: Of so many bytes, these are more than the file's first piece of zeros.
COUNT = 150
TEXT = "x" * 1000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.sqlite")


def append(log: Log, count: int = COUNT) -> None:
    for number in range(count):
        log.append("orders", Event("order", {"n": number, "text": TEXT}, key="key"))


def numbers(log: Log) -> list[int]:
    return [record.payload["n"] for record in log.read("orders", 0, 0)]


def wal(path: str) -> bytes:
    return Path(f"{path}-wal").read_bytes()


def zeros_of(content: bytes) -> int:
    return len(content) - len(content.rstrip(b"\0"))


@needs_core
def test_single_appends_write_over_zeros(path: str) -> None:
    sizes = []
    with sqlite_log(path) as log:
        log.create_topic("orders")
        for _ in range(COUNT):
            append(log, 1)
            sizes.append(len(wal(path)))
        assert zeros_of(wal(path)) > SMALL_BYTES
        # Without it, each of them makes the file grow.
        assert len(set(sizes)) < COUNT // 4


def test_a_log_of_few_bytes_has_none(path: str) -> None:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        append(log, 5)

        assert zeros_of(wal(path)) < 4096


def check_crash(path: str) -> None:
    """What a crash leaves is read to its end, and continued there."""
    with sqlite_log(path) as log:
        log.create_topic("orders")
        append(log)
        for tail in ("", "-wal"):
            shutil.copy(path + tail, f"{path}.left{tail}")
    assert zeros_of(wal(f"{path}.left")) > 4096
    with sqlite_log(f"{path}.left") as left:
        assert numbers(left) == list(range(COUNT))
        append(left)
        assert numbers(left) == [*range(COUNT), *range(COUNT)]


def check_strangers(path: str) -> None:
    """Another connection that writes to the same file in between loses nothing."""
    with sqlite_log(path) as log:
        log.create_topic("orders")
        stranger = sqlite3.connect(path, isolation_level=None)
        stranger.execute("PRAGMA wal_autocheckpoint = 0")
        stranger.execute("CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT)")
        for number in range(COUNT):
            append(log, 1)
            stranger.execute("INSERT INTO notes VALUES (?, ?)", (number, TEXT))
        for tail in ("", "-wal"):
            shutil.copy(path + tail, f"{path}.left{tail}")
        stranger.close()
    with sqlite_log(f"{path}.left") as left:
        assert numbers(left) == [0] * COUNT
    found = sqlite3.connect(f"{path}.left")
    assert found.execute("SELECT count(*) FROM notes").fetchone() == (COUNT,)
    assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found.close()


@needs_core
def test_a_crash_leaves_every_record(path: str) -> None:
    check_crash(path)


@needs_core
def test_other_connections_lose_nothing(path: str) -> None:
    check_strangers(path)


@needs_core
def test_a_planted_bug_is_noticed(path: str) -> None:
    """Zeros that are written before the end, and not behind it."""
    bug = Bug(
        "within the log", LogSpace, "extend", "_.pwrite(fd, _ZEROS, size)", "_(fd, _ZEROS, 4096)"
    )
    with bug.planted(), pytest.raises(BaseException):  # noqa: B017, PT011 - Whatever notices.
        check_crash(path)


@needs_core
@pytest.mark.parametrize("kind", ["open", "size", "pwrite"])
def test_appends_continue_without_it(path: str, kind: str) -> None:
    disk = FaultyIo(SystemIo())
    with sqlite_log(path, io=disk) as log:
        log.create_topic("orders")
        append(log, 5)
        for operation in disk.operations:
            assert not operation.path.endswith("-wal") or operation.kind != "pwrite"
        fault = disk.fail(1, errno.EIO, kinds=[kind], forever=True)  # type: ignore[list-item]
        append(log, COUNT - 5)
        disk.clear_faults()

        assert fault.fired
        assert len(numbers(log)) == COUNT


def test_it_looks_again_once_the_log_was_moved(path: str) -> None:
    space = LogSpace(SystemIo(), path)
    Path(path).write_bytes(b"frames")

    space.extend(1_000_000)
    first = space.until
    space.begin_again()

    assert first > 1_000_000
    assert space.until == SMALL_BYTES
    assert Path(path).read_bytes() == b"frames" + bytes(PIECE_BYTES)


def test_a_file_that_reaches_far_enough_stays_as_it_is(path: str) -> None:
    space = LogSpace(SystemIo(), path)
    Path(path).write_bytes(bytes(2_000_000))

    space.extend(1_000_000)

    assert Path(path).stat().st_size == 2_000_000
