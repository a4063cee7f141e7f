"""Several processes and one SQLite log: appends at once, kills, hints."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from strandline.clock import SystemClock
from strandline.values import Durability, Event
from tests.logs import sqlite_log

APPENDER = "tests.log.sqlite_appender"
ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
KILLS = 6


def start(path: str, name: str, count: int, level: str = "written") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", APPENDER, path, name, str(count), level],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def acknowledged(lines: list[str]) -> list[tuple[int, int]]:
    """Return number and offset of each line that was printed whole."""
    whole = [line for line in lines if line.endswith("\n") and line != "open\n"]
    return [(int(number), int(offset)) for number, offset in map(str.split, whole)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "events.sqlite")
    with sqlite_log(path) as log:
        log.create_topic("orders")
    return path


def contents(path: str) -> list[tuple[str, int]]:
    with sqlite_log(path) as log:
        return [(record.kind, record.payload["n"]) for record in log.read("orders", 0, 0)]


@pytest.mark.slow
def test_processes_append_at_once_each_with_its_own_offsets_we8(path: str) -> None:
    """WE8."""
    count = 200
    processes = {f"p{number}": start(path, f"p{number}", count) for number in range(3)}
    acks = {}
    for name, process in processes.items():
        lines = process.communicate(timeout=DEADLINE_S)[0].splitlines(keepends=True)
        acks[name] = acknowledged(lines)

    stored = contents(path)

    assert len(stored) == count * len(processes)
    for name, placed in acks.items():
        assert [number for number, _ in placed] == list(range(count))
        assert all(stored[offset] == (name, number) for number, offset in placed)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["written", "durable"])
def test_a_killed_writer_loses_nothing_acknowledged_and_blocks_no_other(
    path: str, level: str
) -> None:
    seed = int.from_bytes(SystemClock().random_bytes(4), "big")
    print(f"seed={seed}")  # noqa: T201 - Repeats a failure.
    chance = random.Random(seed)
    expected: dict[int, tuple[str, int]] = {}
    for number in range(KILLS):
        name = f"k{number}"
        wanted = chance.randrange(1, 40)
        with start(path, name, 1_000_000, level) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(wanted)]
            process.kill()
            lines += process.stdout.readlines()
        for value, offset in acknowledged(lines):
            assert offset not in expected
            expected[offset] = (name, value)

    stored = contents(path)

    assert {offset: stored[offset] for offset in expected} == expected
    # What was not acknowledged is there once or not at all.
    assert len(set(stored)) == len(stored)
    assert len(stored) - len(expected) <= KILLS


@pytest.mark.slow
def test_a_killed_writer_leaves_a_crowd_of_others_undisturbed(path: str) -> None:
    """WE8."""
    steady = [start(path, f"s{number}", 150) for number in range(2)]
    for number in range(5):
        with start(path, f"k{number}", 1_000_000) as victim:
            assert victim.stdout is not None
            assert [victim.stdout.readline() for _ in range(20)]
            victim.kill()
    for process in steady:
        process.communicate(timeout=DEADLINE_S)

    stored = contents(path)

    assert all(process.returncode == 0 for process in steady)
    assert len(set(stored)) == len(stored)
    for number in range(2):
        mine = [n for name, n in stored if name == f"s{number}"]
        assert mine == list(range(150))


@pytest.mark.slow
def test_a_watch_is_notified_of_another_processs_appends_we7(path: str) -> None:
    """WE7."""
    with sqlite_log(path) as log:
        watch = log.watch()
        watch.add("orders", 0, 0)
        with start(path, "other", 30) as process:
            seen = 0
            while seen < 30:
                hints = watch.wait(DEADLINE_S)
                assert hints, "no hint came"
                seen += len(list(log.read("orders", 0, seen)))
            process.communicate(timeout=DEADLINE_S)

        log.append("orders", Event("mine", {"n": 0}))

        assert [hint.end for hint in watch.wait(DEADLINE_S)] == [31]
        watch.close()


@pytest.mark.slow
def test_threads_share_commits_and_every_offset_is_theirs_alone(path: str) -> None:
    offsets: list[int] = []
    with sqlite_log(path) as log:

        def append() -> None:
            for number in range(50):
                event = Event("t", {"n": number})
                offsets.append(log.append("orders", event, durability=Durability.DURABLE).offset)

        threads = [threading.Thread(target=append) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)

        assert sorted(offsets) == list(range(400))
        assert log.marks("orders", 0).durable == 400
