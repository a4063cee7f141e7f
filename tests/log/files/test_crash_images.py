"""No crash loses what a file log has acknowledged, or shows what it should not."""

import os

import pytest

from tests.log.files import crashes
from tests.log.files.planted_bugs import CRASH_BUGS, FunctionBug
from tests.model.planted_bugs import Bug

RANDOM_IMAGES = 20_000
#: More than any of the planted bugs needs.
SEEDS_TO_CATCH = 150


@pytest.mark.parametrize("start", ["on nothing", "on a store with a past"])
@pytest.mark.parametrize("length", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_crash_of_one_or_two_operations_breaks_a_rule(length: int, start: str) -> None:
    small = crashes.SmallCrashes(seed=length, fresh=start == "on nothing")

    for names in crashes.small_workloads(length):
        violations = small.run(names, limit=24 if length == 1 else 3)
        assert not violations, f"{start}: {names}: {violations[0]}"


@pytest.mark.slow
def test_no_crash_of_any_three_operations_breaks_a_rule() -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    small = crashes.SmallCrashes(seed)

    for names in crashes.small_workloads(3):
        violations = small.run(names, limit=1)
        assert not violations, f"SmallCrashes({seed}): {names}: {violations[0]}"


@pytest.mark.slow
def test_no_crash_of_a_long_workload_breaks_a_rule() -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    images = 0
    while images < RANDOM_IMAGES:
        images += crashes.crash(seed)
        seed += 1


def test_a_kill_while_an_epoch_begins_hides_nothing_from_readers() -> None:
    small = crashes.SmallCrashes(seed=0)

    assert small.run(("delete_lock", "append_written"), limit=1) == []


def test_a_seed_repeats_itself() -> None:
    assert crashes.crash(7, images=30) == crashes.crash(7, images=30)


@pytest.mark.slow
@pytest.mark.parametrize("bug", CRASH_BUGS, ids=lambda bug: bug.title)
def test_crashes_show_a_planted_bug(bug: Bug | FunctionBug) -> None:
    # The store to begin with is a healthy one.
    crashes.store_before()

    with bug.planted():
        assert crashes.caught(SEEDS_TO_CATCH), bug.title
