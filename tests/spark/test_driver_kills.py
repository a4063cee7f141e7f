"""Real drivers, killed with their Java: eight of them, and a worker."""

from pathlib import Path

import pytest

from tests.spark import driver_kills

# Nine times, Spark starts.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_drivers_and_a_worker_are_killed_and_each_row_is_there_once(tmp_path: Path) -> None:
    driver_kills.run(tmp_path)
