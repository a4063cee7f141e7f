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
    "one write overtakes those queued before it": (7890, 9024, 10913, 11510),
    "what arrives during a bracket for one write is forgotten": (855, 2783, 3755, 4242),
    "stop forgets what is queued": (2926, 3882, 4272, 5745),
    "a bracket is not left after a failure": (2070, 2452, 3155, 3762),
    "a wait to be durable is not served after a bracket": (4929, 5626, 6874),
    "a bracket for one write is not left after a failure": (868, 898, 2913, 5298),
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
