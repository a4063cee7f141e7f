"""Real drivers, killed with their JVM, and a worker."""

import os
from pathlib import Path

import pytest

from tests.spark import driver_kills
from tests.spark.killed_driver import POINTS

pytestmark = pytest.mark.timeout(900)


# Spark starts once more than there are points.
@pytest.mark.heavy
def test_drivers_and_a_worker_are_killed_and_each_row_is_there_once(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed={seed}")  # noqa: T201 - Repeats a failure.

    driver_kills.run(tmp_path, seed, len(POINTS))
