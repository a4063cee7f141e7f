"""A process that keeps the lock of a partition between appends, and others that request it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from tests.core.plain import needs_core
from tests.logs import file_log

pytestmark = [needs_core, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("lease_writer.py")


class Writers:
    """Processes that append to one log, and what they have appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running: list[subprocess.Popen[str]] = []

    def start(
        self, name: str, count: int, *words: str, core: str = "on"
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), f"file:{self.path}", name, str(count), *words],
            env={**os.environ, "STRANDLINE_CORE": core},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def begun(self, name: str, count: int, *words: str) -> "subprocess.Popen[str]":
        process = self.start(name, count, *words)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        return process

    def end(self, process: "subprocess.Popen[str]") -> set[int]:
        """Have it append no more; return which of its numbers are certain to be stored."""
        told, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        lines = [line.split() for line in told.splitlines() if " " in line]
        word, end = lines.pop()
        assert word == "end"
        return set(range(int(end))) - {int(number) for _, number in lines}


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Writers]:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
    made = Writers(tmp_path / "log")
    yield made
    for process in made.running:
        process.kill()
        process.communicate()


def check(log: Log, **stored: set[int]) -> None:
    """Raise AssertionError unless each writer's events are there, once and in order."""
    assert all(report.is_sound for report in log.verify("t"))
    records = list(log.read("t", 0, 0))
    assert [each.offset for each in records] == list(range(len(records)))
    for name, certain in stored.items():
        numbers = [each.payload for each in records if each.kind == name]
        assert numbers == sorted(set(numbers)), name
        assert certain <= set(numbers), name


def test_a_killed_process_keeps_no_lock(writers: Writers) -> None:
    for number in range(3):
        process = writers.begun("killed", 0)
        process.kill()
        process.wait()

        with sl.open(f"file:{writers.path}") as log:
            log.append("t", sl.Event("mine", number))
            log.append("t", sl.Event("mine", number + 1))
            check(log)


def test_a_process_that_appends_no_more_gives_the_lock_up(writers: Writers) -> None:
    process = writers.begun("idle", 101, "waits")

    with sl.open(f"file:{writers.path}") as log:
        assert log.append("t", sl.Event("mine", 0)).offset == 101

    assert process.poll() is None


def test_a_process_that_continues_appending_lets_another_in(writers: Writers) -> None:
    process = writers.begun("busy", 0)

    with sl.open(f"file:{writers.path}") as log:
        for number in range(200):
            # By the core, and by Python: both ask.
            terms = {"producer": "p", "sequence": number} if number % 2 else {}
            log.append("t", sl.Event("mine", number), **terms)  # type: ignore[arg-type]

        assert process.poll() is None
        check(log, busy=writers.end(process), mine=set(range(200)))


def test_a_stopped_process_is_named_and_can_be_fenced(writers: Writers) -> None:
    process = writers.begun("stopped", 0)
    is_named = False
    while not is_named:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        with file_log(str(writers.path), lock_timeout_s=0.05) as log:
            # Now and then it is stopped while it has no lock.
            try:
                log.append("t", sl.Event("waited"))
            except sl.UnavailableError as error:
                is_named = error.fields["pid"] == process.pid
        if not is_named:
            process.send_signal(signal.SIGCONT)

    with file_log(str(writers.path), take_over=True, lock_timeout_s=0.05) as log:
        log.append("t", sl.Event("mine", 0))
        process.send_signal(signal.SIGCONT)
        log.append("t", sl.Event("mine", 1))

        check(log, stopped=writers.end(process), mine={0, 1})


@pytest.mark.parametrize("words", [(), ("never-asks",)], ids=["asking", "older"])
def test_writers_without_the_core_are_not_kept_out(
    writers: Writers, words: tuple[str, ...]
) -> None:
    busy = {name: writers.begun(name, 0) for name in ("busy", "other")}
    plain = {name: writers.start(name, 101, *words, core="off") for name in ("plain", "slow")}

    stored = {name: writers.end(process) for name, process in plain.items()}

    assert [process.poll() for process in busy.values()] == [None, None]
    stored |= {name: writers.end(process) for name, process in busy.items()}
    with sl.open(f"file:{writers.path}") as log:
        check(log, **stored)
