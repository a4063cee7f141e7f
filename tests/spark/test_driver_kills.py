"""Real drivers, killed with their Java at each point of the sink, one after the other."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import strandline as sl
from tests.processes.fork_server import ROOT
from tests.spark.killed_driver import POINTS, WORKER

pytestmark = pytest.mark.slow

ROWS_PER_BATCH = 20
PATIENCE_S = 600.0


def drive(folder: Path, point: str, batch: int) -> int:
    """Run a driver until it ends, or is killed in a batch; return how it ended."""
    command = [sys.executable, "-m", "tests.spark.killed_driver", str(folder), point, str(batch)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode


def test_eight_drivers_and_a_worker_are_killed_and_each_row_is_there_once(tmp_path: Path) -> None:
    rows = ROWS_PER_BATCH * (len(POINTS) + 1)
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("source")
        log.create_topic("target", partitions=2)
        log.append_many("source", [sl.Event("n", {"n": n}, key=f"{n}") for n in range(rows)])

    for batch, point in enumerate(POINTS):
        assert drive(tmp_path, point, batch) == -signal.SIGKILL, point
    assert drive(tmp_path, WORKER, len(POINTS)) == 0

    with sl.open(f"file:{tmp_path / 'log'}") as log:
        found = Counter(
            record.payload["n"]
            for partition in range(2)
            for record in log.read("target", partition, 0)
        )
    assert found == Counter(range(rows))
    commits = {path.name for path in (tmp_path / "checkpoint" / "commits").iterdir()}
    assert {str(batch) for batch in range(len(POINTS) + 1)} <= commits
