"""A process that is killed in the middle of tiering loses nothing, and the next continues."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from tests.tiering import tier_kills
from tests.tiering.tier_kills import PROCESS, ROOT, filled

pytestmark = pytest.mark.slow

#: At every so many points here, at all of them in torture.
STRIDE = 12


@pytest.mark.parametrize("backend", tier_kills.BACKENDS)
def test_a_kill_at_any_point_of_a_run_loses_nothing(backend: str, tmp_path: Path) -> None:
    points = tier_kills.points(backend)
    assert points >= 60

    for point in range(1 + os.urandom(1)[0] % STRIDE, points + 1, STRIDE):
        (tmp_path / str(point)).mkdir()
        tier_kills.kill_at(backend, point, tmp_path / str(point))


@pytest.mark.parametrize(
    ("how", "expected"), [("0", [(0, 20)]), ("worker", [(0, 9), (9, 18), (18, 20)])]
)
def test_several_processes_at_once_do_not_harm_each_other(
    how: str, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    url, store = f"file:{tmp_path / 'log'}", f"file://{tmp_path / 'cold'}"
    records = filled(url)
    commands = [sys.executable, str(PROCESS), url, store, how]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    running = [
        subprocess.Popen(commands, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    codes = [process.wait(120) for process in running]

    assert codes == [0, 0, 0]
    with sl.open(url, mode="read") as log:
        assert list(log.read("t", 0, 0)) == records
        assert [(run.start, run.end) for run in log.segments("t", 0)] == expected
        assert log.verify("t")[0].is_sound
