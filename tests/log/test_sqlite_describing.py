"""Describing a database leaves no trace, whatever state it is in."""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.stores.sqlite import describe_sqlite
from strandline.testing import FaultyIo

RECORDS = 7


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log" / "events.db"
    path.parent.mkdir()
    with sl.open(f"sqlite:{path}") as log:
        log.create_topic("orders", partitions=3)
        log.append_many("orders", [sl.Event("a", n) for n in range(RECORDS)], partition=1)
    return path


def test_a_log_that_no_process_has_open(path: Path) -> None:
    before = state(path)

    found = sl.describe(f"sqlite:{path}")

    assert state(path) == before
    assert (found.backend, found.topics, found.partitions, found.records) == (
        *("sqlite", 1, 3, RECORDS),
    )
    assert found.size_bytes == path.stat().st_size
    assert found.location == f"sqlite:{path}"


@pytest.mark.slow
def test_a_log_that_is_being_written_is_described_without_changing_a_byte(path: Path) -> None:
    # Its retention reads the database after a while, and SQLite notes readers in the index.
    with sl.open(f"sqlite:{path}", retention=False) as log:
        log.append("orders", sl.Event("a", RECORDS))
        before = state(path)

        script = "import sys, strandline as sl\nassert sl.describe(sys.argv[1]).records == 8\n"
        subprocess.run([sys.executable, "-c", script, f"sqlite:{path}"], check=True)

        assert state(path) == before
        assert sl.describe(f"sqlite:{path}").log_id == log.id


@pytest.mark.parametrize("call", [1, 2])
def test_a_log_whose_files_cannot_be_looked_at_is_not_taken_for_one_at_rest(
    path: Path, call: int
) -> None:
    io = FaultyIo(SystemIo())
    with sl.open(f"sqlite:{path}") as log:
        log.append("orders", sl.Event("a", RECORDS))

        once = io.fail(call, errno.EIO)
        assert describe_sqlite(str(path), io=io).records == RECORDS + 1
        assert once.fired == 1

        io.fail(call, errno.EIO, forever=True)
        with pytest.raises(sl.FailedError):
            describe_sqlite(str(path), io=io)


@pytest.mark.slow
def test_a_log_whose_writer_crashed(path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "import strandline as sl\n"
        "log = sl.open(sys.argv[1])\n"
        "log.append('orders', sl.Event('a', 0))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", script, f"sqlite:{path}"], check=False)
    before = state(path)

    found = sl.describe(f"sqlite:{path}")

    assert died.returncode == -signal.SIGKILL
    assert state(path) == before
    assert found.records == RECORDS + 1


def test_a_log_that_may_not_be_written(path: Path) -> None:
    path.chmod(0o400)
    path.parent.chmod(0o500)
    before = state(path)

    found = sl.describe(f"sqlite:{path}")

    assert state(path) == before
    assert found.records == RECORDS
    path.parent.chmod(0o700)


def test_a_log_that_was_copied_while_it_was_open_needs_repair(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with sl.open(f"sqlite:{path}") as log:
        log.append("orders", sl.Event("a", 0))
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", f"{copy}-wal")

    with pytest.raises(sl.InvalidError, match="open the log once"):
        sl.describe(f"sqlite:{copy}")
    sl.open(f"sqlite:{copy}").close()

    assert sl.describe(f"sqlite:{copy}").records == RECORDS + 1


@pytest.mark.slow
def test_a_log_is_described_while_others_open_and_close_it(path: Path) -> None:
    script = (
        "import sys\n"
        "import strandline as sl\n"
        "for n in range(40):\n"
        "    with sl.open(sys.argv[1]) as log:\n"
        "        log.append('orders', sl.Event('a', 'x' * 5000))\n"
    )
    seen = []
    with subprocess.Popen([sys.executable, "-c", script, f"sqlite:{path}"]) as writer:
        while writer.poll() is None:
            seen.append(sl.describe(f"sqlite:{path}").records)

    assert writer.returncode == 0
    assert seen == sorted(seen)
    assert sl.describe(f"sqlite:{path}").records == RECORDS + 40


@pytest.mark.parametrize("made", ["nothing", "an empty file", "another database", "a folder"])
def test_what_holds_no_log_is_refused(tmp_path: Path, made: str) -> None:
    path = tmp_path / "missing" / "events.db"
    if made != "nothing":
        path.parent.mkdir()
    if made == "an empty file":
        path.touch()
    elif made == "another database":
        path.write_bytes(b"no database at all, though it is long enough to be one" * 10)
    elif made == "a folder":
        path.mkdir()

    with pytest.raises((sl.InvalidError, sl.CorruptError)):
        sl.describe(f"sqlite:{path}")

    assert path.exists() == (made != "nothing")
    assert path.parent.exists() == (made != "nothing")


def state(path: Path) -> dict[str, tuple[str, int, int]]:
    """Return the folder and each file in it with content, time of change and inode."""
    found = {}
    for name in sorted(os.listdir(path.parent)):
        file = path.parent / name
        status = file.stat()
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        found[name] = (digest, status.st_mtime_ns, status.st_ino)
    folder = path.parent.stat()
    found["."] = ("", folder.st_mtime_ns, folder.st_ino)
    return found


def test_a_log_is_described_as_others_have_changed_it(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'log.db'}"
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic("orders")
        assert log.describe().partitions == 1

        other.add_partitions("orders", 3)

        assert log.describe().partitions == 3
