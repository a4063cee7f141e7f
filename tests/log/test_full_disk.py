"""A full disk: appends are refused, what frees space continues, and nothing has to be reopened."""

import contextlib
import errno
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files import FileStore
from strandline.testing import FaultyIo
from strandline.values import (
    ClosedError,
    DroppedError,
    Durability,
    DurabilityName,
    Event,
    FullError,
    UnknownError,
)

CHILD = Path(__file__).with_name("full_disk_child.py")
OPENING = Path(__file__).with_name("full_disk_opening.py")


def event(number: int, size: int = 10) -> Event:
    return Event("order", {"id": number, "text": "x" * size})


def ids(log: Log) -> list[int]:
    return [record.payload["id"] for record in log.read("orders", 0, 0)]


@pytest.fixture
def disk() -> FaultyIo:
    return FaultyIo(SystemIo())


@pytest.mark.parametrize("size", [10, 300_000])
def test_an_append_that_finds_no_room_is_handed_back_and_the_log_continues(
    tmp_path: Path, disk: FaultyIo, size: int
) -> None:
    with Log(FileStore(str(tmp_path / "log"), io=disk)) as log:
        log.create_topic("orders")
        log.append("orders", event(0))
        refused = event(1, 5_000_000)
        disk.fail(1, errno.ENOSPC, kinds=["preallocate"], forever=True)

        for _ in range(3):
            with pytest.raises(FullError, match="trim or drop topics") as caught:
                log.append("orders", refused)
            assert caught.value.write == refused
        disk.clear_faults()

        assert log.append("orders", event(2, size)).offset == 1
        assert ids(log) == [0, 2]
    with Log(FileStore(str(tmp_path / "log"))) as log:
        assert ids(log) == [0, 2]


def test_a_write_that_was_cut_by_a_full_disk_is_not_there_and_the_log_continues(
    tmp_path: Path, disk: FaultyIo
) -> None:
    with Log(FileStore(str(tmp_path / "log"), io=disk)) as log:
        log.create_topic("orders")
        log.append_many("orders", [event(number) for number in range(3)])
        disk.write_short(1, errno.ENOSPC, keep_bytes=40)

        with pytest.raises(FullError):
            log.append("orders", event(3), key="a")

        assert ids(log) == [0, 1, 2]
        assert log.append("orders", event(4)).offset == 3
        assert ids(log) == [0, 1, 2, 4]


def test_a_cut_that_cannot_be_undone_stays_unknown(tmp_path: Path, disk: FaultyIo) -> None:
    with Log(FileStore(str(tmp_path / "log"), io=disk)) as log:
        log.create_topic("orders")
        log.append("orders", event(0))
        disk.fail(1, errno.ENOSPC, kinds=["pwrite"], forever=True)

        with pytest.raises(UnknownError):
            log.append("orders", event(1), key="a")
        disk.clear_faults()


def test_several_writes_of_one_drain_are_each_handed_back(tmp_path: Path, disk: FaultyIo) -> None:
    with Log(FileStore(str(tmp_path / "log"), io=disk)) as log:
        log.create_topic("orders", partitions=2)
        log.append_many("orders", [event(0), event(1)])
        disk.fail(1, errno.ENOSPC, kinds=["preallocate"], forever=True)

        values = [event(number, 2_000_000) for number in range(4)]
        with pytest.raises(FullError) as caught:
            log.append_many("orders", values)

        assert caught.value.write == values
        disk.clear_faults()
        assert len(log.append_many("orders", values)) == 4


def test_an_ack_takes_a_piece_of_the_reserve_and_an_append_waits_until_it_is_whole(
    tmp_path: Path, disk: FaultyIo
) -> None:
    """The manifest, and then the key, find no room; each is stored with what is released."""
    path = tmp_path / "log"
    with Log(FileStore(str(path), io=disk)) as log:
        log.create_topic("orders")
        log.append_many("orders", [event(number) for number in range(3)])
        log.sync("orders", 0)
        log.register("orders", "mailer", {0: 0})
        whole = (path / "reserve").stat().st_size
        disk.fail(1, errno.ENOSPC, kinds=["pwrite"])

        log.ack("orders", "mailer", 0, 2)

        assert log.cursor("orders", "mailer", 0) == 2
        assert 0 < (path / "reserve").stat().st_size < whole
        disk.fail(1, errno.ENOSPC, kinds=["preallocate"])
        with pytest.raises(FullError):
            log.append("orders", event(3, 5_000_000))
        disk.clear_faults()
        log.append("orders", event(3, 5_000_000))
        assert (path / "reserve").stat().st_size == whole


def test_without_a_reserve_an_ack_that_finds_no_room_is_refused(
    tmp_path: Path, disk: FaultyIo
) -> None:
    """What the reserve is for: without it the same ack fails."""
    path = tmp_path / "log"
    with Log(FileStore(str(path), io=disk)) as log:
        log.create_topic("orders")
        log.append_many("orders", [event(number) for number in range(3)])
        log.sync("orders", 0)
        log.register("orders", "mailer", {0: 0})
        (path / "reserve").unlink()
        disk.fail(1, errno.ENOSPC, kinds=["pwrite"])

        with pytest.raises(FullError):
            log.ack("orders", "mailer", 0, 2)

        assert log.ack("orders", "mailer", 0, 2) == 2


def in_small_mount(mount: Path, command: list[str]) -> list[str]:
    """Return the command that runs this one with 8 MiB mounted, for any user."""
    script = (
        f"mount -t tmpfs -o size=8m tmpfs {shlex.quote(str(mount))} && exec {shlex.join(command)}"
    )
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script]


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    place = tmp_path / "small"
    place.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here, to mount a small disk")
    tried = subprocess.run(
        in_small_mount(place, ["true"]), capture_output=True, check=False, timeout=60
    )
    if tried.returncode:
        pytest.skip(f"this user may mount nothing: {tried.stderr.decode().strip()}")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("url", ["file:{}/log", "sqlite:{}/log.db"])
def test_on_a_disk_that_is_full_consumers_ack_and_trim_and_drop_make_room(
    mount: Path, url: str
) -> None:
    command = [sys.executable, str(CHILD), url.format(mount)]

    ran = subprocess.run(
        in_small_mount(mount, command), capture_output=True, check=False, text=True, timeout=300
    )

    assert ran.stdout.split() == ["acked", "trimmed", "dropped"], ran.stderr
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("url", ["file:{}/log", "sqlite:{}/log.db"])
def test_opening_on_a_disk_that_others_have_filled_raises_what_says_so(
    mount: Path, url: str
) -> None:
    command = [sys.executable, str(OPENING), url.format(mount), str(mount / "rest")]

    ran = subprocess.run(
        in_small_mount(mount, command), capture_output=True, check=False, text=True, timeout=300
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_a_copy_that_finds_no_room_reports_it_once(mount: Path, tmp_path: Path) -> None:
    with Log(FileStore(str(tmp_path / "source"))) as log:
        log.create_topic("orders")
        for number in range(40):
            log.append_many("orders", [event(number, 1000)] * 1000)
    copy = ["-m", "strandline", "copy", f"file:{tmp_path}/source", f"sqlite:{mount}/copy.db"]

    ran = subprocess.run(
        in_small_mount(mount, [sys.executable, *copy, "--json"]),
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )

    assert ran.returncode == 4, ran.stderr
    assert json.loads(ran.stderr)["error"]["class"] == "FullError"


def open_files(under: Path) -> list[str]:
    links = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(each.readlink()))
    return [each for each in links if each.startswith(str(under))]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by Linux")
def test_a_trim_to_the_end_keeps_no_removed_segment_open(tmp_path: Path) -> None:
    with Log(FileStore(str(tmp_path / "log"))) as log:
        log.create_topic("orders")
        log.append("orders", event(0), durability="durable")
        assert ids(log) == [0]
        # Spent, as on a disk that is full.
        (tmp_path / "log" / "reserve").write_bytes(b"")

        log.trim("orders", 0, 1)

        assert [each for each in open_files(tmp_path) if each.endswith("(deleted)")] == []
        assert log.append("orders", event(1)).offset == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by Linux")
def test_a_trim_while_the_error_of_a_full_disk_is_handled_keeps_no_removed_segment_open(
    tmp_path: Path, disk: FaultyIo
) -> None:
    with Log(FileStore(str(tmp_path / "log"), io=disk)) as log:
        log.create_topic("orders")
        log.append("orders", event(0))
        disk.fail(1, errno.ENOSPC, kinds=["preallocate"], forever=True)
        with pytest.raises(FullError) as caught:
            log.append("orders", event(1, 5_000_000))
        disk.clear_faults()
        # Spent, as on a disk that is full.
        (tmp_path / "log" / "reserve").write_bytes(b"")

        log.trim("orders", 0, 1)

        assert caught.value.__traceback__ is not None
        assert [each for each in open_files(tmp_path) if each.endswith("(deleted)")] == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by Linux")
@pytest.mark.parametrize("level", ["written", "durable"])
def test_a_closed_log_to_which_was_written_keeps_no_file_open(
    tmp_path: Path, level: DurabilityName
) -> None:
    log = Log(FileStore(str(tmp_path / "log")))
    log.create_topic("orders", partitions=2)
    receipts = [
        log.append("orders", event(number), partition=partition, durability=level)
        for partition in (0, 1)
        for number in range(3)
    ]

    log.close()

    assert open_files(tmp_path) == []
    for receipt in receipts:
        if level == "durable":
            assert receipt.wait("durable", timeout_s=5).level is Durability.DURABLE
        else:
            with pytest.raises(ClosedError):
                receipt.wait("durable", timeout_s=5)
    assert open_files(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by Linux")
def test_a_topic_that_is_dropped_keeps_no_file_open_in_any_log(tmp_path: Path) -> None:
    place = str(tmp_path / "log")
    with Log(FileStore(place)) as log, Log(FileStore(place)) as other, Log(FileStore(place)) as one:
        topic = log.create_topic("orders")
        for number in range(3):
            log.append("orders", event(number))
        assert ids(log) == ids(other) == ids(one) == [0, 1, 2]

        log.drop_topic("orders")
        assert other.topics() == []
        for _ in range(2):
            with pytest.raises(DroppedError):
                one.marks(topic, 0)

        assert [each for each in open_files(tmp_path) if each.endswith("(deleted)")] == []
