"""A view under seeded interleavings of its pump, writers, readers and reassignments."""

import os
from pathlib import Path

import pytest

from tests.views import schedules

#: Many more are in torture.
SCHEDULES = 30


@pytest.mark.slow
def test_no_schedule_breaks_a_rule() -> None:
    first = int.from_bytes(os.urandom(4), "big")
    for seed in range(first, first + SCHEDULES):
        try:
            schedules.run(seed)
        except BaseException as error:
            raise AssertionError(f"repeat it with schedules.run({seed}): {error!r}") from error


def test_a_schedule_repeats_itself(tmp_path: Path) -> None:
    runs = []
    for number in range(2):
        (tmp_path / f"{number}").mkdir()
        runs.append(schedules.Schedule(7, tmp_path / f"{number}"))
        runs[-1].run()

    assert runs[0].simulation.now == runs[1].simulation.now
    assert runs[0].random.getstate() == runs[1].random.getstate()
