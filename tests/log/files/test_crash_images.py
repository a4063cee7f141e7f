"""No crash loses what a file log has acknowledged, or shows what it should not."""

import os
import shutil
from pathlib import Path

import pytest

import strandline as sl
from tests.log.files import crashes
from tests.log.files.planted_bugs import CRASH_BUGS
from tests.planting import Bug

#: All others are in torture.
RANDOM_IMAGES = 400
#: Of the workloads of so many operations, each of these is crashed; all of them in torture.
STRIDES = {1: 1, 2: 13, 3: 53}
#: More than any of the planted bugs needs.
SEEDS_TO_CATCH = 150
#: A seed that noticed a bug which hardly any other does.
NOTICED_BY = {"a trim beyond the durable mark does not sync": 218}


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("length", STRIDES)
def test_no_crash_of_a_few_operations_breaks_a_rule(length: int, *, fresh: bool) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    crashes.crash_small(seed, length, STRIDES[length], fresh=fresh)


@pytest.mark.slow
def test_no_crash_of_a_long_workload_breaks_a_rule() -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    images = 0
    while images < RANDOM_IMAGES:
        images += crashes.crash(seed)
        seed += 1


@pytest.mark.slow
def test_a_kill_while_an_epoch_begins_hides_nothing_from_readers() -> None:
    small = crashes.SmallCrashes(seed=0)

    assert small.run(("delete_lock", "append_written"), limit=1) == []


def test_blocks_of_a_removed_file_in_the_first_segment_are_no_records_of_the_partition(
    tmp_path: Path,
) -> None:
    """What was never written may read as stale bytes, a whole segment of another topic."""
    with sl.open(f"file:{tmp_path}") as log:
        removed, crashed = log.create_topic("removed"), log.create_topic("crashed")
        log.append("removed", sl.Event("before"))
    [segment] = (tmp_path / "topics" / str(removed.id) / "0" / "segments").iterdir()
    shutil.copy(segment, tmp_path / "topics" / str(crashed.id) / "0" / "segments")

    with sl.open(f"file:{tmp_path}") as log:
        assert list(log.read("crashed", 0, 0)) == []
        log.append("crashed", sl.Event("after"), durability=sl.Durability.DURABLE)
        assert [record.kind for record in log.read("crashed", 0, 0)] == ["after"]


@pytest.mark.slow
def test_a_seed_repeats_itself() -> None:
    assert crashes.crash(8, images=30) == crashes.crash(8, images=30)


@pytest.mark.heavy
@pytest.mark.parametrize("bug", CRASH_BUGS, ids=str)
def test_crashes_show_a_planted_bug(bug: Bug) -> None:
    # The store to begin with is a healthy one.
    crashes.store_before()

    with bug.planted():
        assert crashes.caught(SEEDS_TO_CATCH, first=NOTICED_BY.get(bug.title, 0)), bug.title
