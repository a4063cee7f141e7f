"""A trigger in several processes is one group: a process that is killed is succeeded."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import strandline as sl

PATIENCE_S = 90.0
PARTITIONS = 4
RECORDS = 40

PROGRAM = """
import sys
import threading
import strandline as sl
from strandline.triggers import Triggers

url, path, is_stuck = sys.argv[1], sys.argv[2], sys.argv[3] == "stuck"
notes = open(path, "a", buffering=1)

def bill(record):
    notes.write(f"begin {record.partition} {record.offset}\\n")
    if is_stuck:
        threading.Event().wait()
    notes.write(f"end {record.partition} {record.offset}\\n")

with sl.open(url) as log:
    triggers = Triggers(log)
    triggers.on("orders", name="billing")(bill)
    with triggers:
        sys.stdin.read()
"""


def started(folder: Path, url: str, name: str) -> "subprocess.Popen[bytes]":
    """Return a process that handles records until its input ends; `stuck` handles none."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), url, str(folder / name), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return once it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "that takes too long"
        time.sleep(0.01)


def noted(folder: Path, name: str, what: str) -> list[str]:
    """Return the places that a process has noted."""
    path = folder / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(" ")[2] for line in lines if line.startswith(what)]


@pytest.mark.slow
def test_every_record_is_handled_once_by_a_process_that_lives(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("orders", partitions=PARTITIONS)
        children = [started(tmp_path, url, name) for name in ("stuck", "other")]
        try:
            wait_until(lambda: sorted(shares(log).values()) == [2, 2])
            for number in range(RECORDS):
                event = sl.Event("placed", {"id": number}, key=str(number))
                log.append("orders", event, partition=number % PARTITIONS)
            wait_until(lambda: bool(noted(tmp_path, "stuck", "begin")))
            wait_until(lambda: len(noted(tmp_path, "other", "end")) == RECORDS // 2)
            apart = set(noted(tmp_path, "other", "end")) & set(noted(tmp_path, "stuck", "begin"))

            children[0].kill()
            children[0].wait()
            wait_until(lambda: sum(each.lag for each in log.consumers("orders")) == 0)
        finally:
            for child in children:
                child.kill()
                child.communicate()

    handled = Counter(noted(tmp_path, "other", "end"))
    assert apart == set()
    assert noted(tmp_path, "stuck", "end") == []
    assert len(handled) == RECORDS
    assert set(handled.values()) == {1}


def shares(log: sl.Log) -> Counter[str]:
    """Return how many partitions each process holds."""
    members = (each.member for each in log.consumers("orders"))
    return Counter(each for each in members if each is not None)
