"""The coordinator under thousands of seeded interleavings, and under planted bugs."""

import os

import pytest

from tests.model import coordinator_schedules
from tests.model.planted_bugs import COORDINATOR_BUGS
from tests.model.simulation import DeadlockError
from tests.planting import Bug

#: All others are in torture.
SCHEDULES = 60
#: More than any of the planted bugs needs.
SCHEDULES_TO_CATCH = 2_000
#: Schedules that noticed some of them, tried before all others. Any edit of the write
#: path moves them: several, where few do.
NOTICED_BY = {
    "one write overtakes those queued before it": (703, 1912, 5890, 5921),
    "what arrives during a bracket for one write is forgotten": (394, 896, 1782, 2215),
    "stop forgets what is queued": (329, 982, 3917, 4073),
    "a bracket is not left after a failure": (425, 868, 1558, 1654),
    "a wait to be durable is not served after a bracket": (8069, 8176, 16393, 18302),
    "a bracket for one write is not left after a failure": (1452, 2555, 5377, 6817),
}


def test_no_schedule_breaks_a_rule() -> None:
    first = int.from_bytes(os.urandom(4), "big")
    for seed in range(first, first + SCHEDULES):
        try:
            coordinator_schedules.run(seed)
        except BaseException as error:
            raise AssertionError(
                f"repeat it with coordinator_schedules.run({seed}): {error!r}"
            ) from error


def test_a_schedule_repeats_itself() -> None:
    runs = [coordinator_schedules.Schedule(7) for _ in range(2)]
    for schedule in runs:
        schedule.run()

    assert runs[0].store.rows == runs[1].store.rows
    assert runs[0].simulation.now == runs[1].simulation.now
    assert runs[0].random.getstate() == runs[1].random.getstate()


@pytest.mark.heavy
@pytest.mark.parametrize("bug", COORDINATOR_BUGS, ids=str)
def test_the_schedules_catch_a_planted_bug(bug: Bug) -> None:
    with bug.planted():
        for seed in (*NOTICED_BY.get(bug.title, ()), *range(SCHEDULES_TO_CATCH)):
            try:
                coordinator_schedules.run(seed)
            except (AssertionError, DeadlockError):
                return

    pytest.fail(f"{SCHEDULES_TO_CATCH} schedules did not notice: {bug.title}")


def test_threads_that_wait_for_one_refused_write_all_learn_of_it() -> None:
    # Two of them came to mark the error as seen at the same time.
    coordinator_schedules.run(532113828)
