"""The core starts the writeback of written data, in a separate thread."""

import os
import sys
import time
from pathlib import Path

import pytest

import strandline as sl
from strandline.io import SystemIo
from tests.core.plain import needs_core

pytestmark = [needs_core, pytest.mark.skipif(sys.platform != "linux", reason="Linux has the call")]

PATIENCE_S = 20.0
MEBI = 1 << 20


def descriptors_of(path: Path) -> int:
    """Return how many descriptors of this process lead to files below a path."""
    found = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{each}").startswith(str(path))
        except FileNotFoundError:
            continue
    return found


def wait_for_descriptors(path: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while descriptors_of(path) != count:
        assert time.monotonic() < deadline
        os.sched_yield()


def test_large_writes_leave_no_descriptor_open(tmp_path: Path) -> None:
    io, path = SystemIo(), tmp_path / "file"
    fd = io.open(str(path), "create")
    for number in range(40):
        io.pwrite(fd, bytes(3 * MEBI), number * MEBI)

    wait_for_descriptors(tmp_path, 1)
    io.close(fd)
    wait_for_descriptors(tmp_path, 0)


def test_a_log_that_has_written_much_holds_no_file_after_its_close(tmp_path: Path) -> None:
    event = sl.Event("k", "x" * 100_000)
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
        for _ in range(100):
            log.append("t", event)
        assert len(list(log.read("t", 0, 90))) == 10

    wait_for_descriptors(tmp_path, 0)


@pytest.mark.slow
def test_a_forked_child_has_none_of_the_descriptors(tmp_path: Path) -> None:
    io, path = SystemIo(), tmp_path / "file"
    fd = io.open(str(path), "create")
    for _ in range(20):
        io.pwrite(fd, bytes(4 * MEBI), 0)
        child = os.fork()
        if not child:
            os._exit(descriptors_of(tmp_path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    io.close(fd)
