"""No crash loses what a file log has acknowledged, or shows what it should not."""

import os

import pytest

from tests.log.files import crashes

RANDOM_SEEDS = 200


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("length", [1, 2])
def test_no_crash_of_a_tiny_workload_breaks_a_rule(length: int, fresh: bool) -> None:  # noqa: FBT001
    small = crashes.SmallCrashes(seed=length, fresh=fresh)

    for names in crashes.small_workloads(length):
        violations = small.run(names, limit=24)
        assert not violations, f"{names}: {violations[0]}"


@pytest.mark.slow
def test_no_crash_of_any_three_operations_breaks_a_rule() -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    small = crashes.SmallCrashes(seed)

    for names in crashes.small_workloads(3):
        violations = small.run(names, limit=2)
        assert not violations, f"seed {seed}, {names}: {violations[0]}"


@pytest.mark.slow
def test_no_crash_of_a_long_workload_breaks_a_rule() -> None:
    first = int.from_bytes(os.urandom(4), "big")

    for seed in range(first, first + RANDOM_SEEDS):
        crashes.run(seed)
