"""A query whose drivers are killed with their JVM, at each point of the sink in turn."""

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import strandline as sl
from tests.processes.fork_server import ROOT
from tests.spark.killed_driver import POINTS, WORKER
from tests.spark_session import quick_spark

ROWS_PER_BATCH = 20
PATIENCE_S = 600.0


def drive(folder: Path, point: str, batch: int) -> int:
    """Run a driver until it ends, or is killed in a batch; return how it ended."""
    command = [sys.executable, "-m", "tests.spark.killed_driver", str(folder), point, str(batch)]
    said = folder / "said"
    with said.open("wb") as file:
        # Not through a pipe, which processes that outlive the driver would hold open.
        done = subprocess.run(
            command, cwd=ROOT, stdout=file, stderr=file, timeout=PATIENCE_S, check=False
        )
    assert done.returncode in (0, -signal.SIGKILL), said.read_text()[-2000:]
    return done.returncode


def run(folder: Path, seed: int, points_max: int = len(POINTS)) -> None:
    """Kill a driver in each batch, then a worker; raise unless each row is there once."""
    points = random.Random(seed).sample(POINTS, points_max)
    rows = ROWS_PER_BATCH * (len(points) + 1)
    with sl.open(f"file:{folder / 'log'}") as log:
        log.create_topic("source")
        log.create_topic("target", partitions=2)
        log.append_many("source", [sl.Event("n", {"n": n}, key=f"{n}") for n in range(rows)])
    with quick_spark():
        for batch, point in enumerate(points):
            assert drive(folder, point, batch) == -signal.SIGKILL, point
        assert drive(folder, WORKER, len(points)) == 0
    with sl.open(f"file:{folder / 'log'}") as log:
        found = Counter(
            record.payload["n"]
            for partition in range(2)
            for record in log.read("target", partition, 0)
        )
    assert found == Counter(range(rows)), f"after {points}"
    commits = {path.name for path in (folder / "checkpoint" / "commits").iterdir()}
    assert {str(batch) for batch in range(len(points) + 1)} <= commits
