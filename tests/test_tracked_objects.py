"""A bulk call gives Python's collector no object for each value.

Each of its runs goes through all that there are, so a value would cost the more among many.
"""

import gc
from pathlib import Path
from typing import Any

import pytest

from strandline.log import Log
from tests.core.plain import needs_core
from tests.test_growth import (
    PARTITIONS,
    STORES,
    Call,
    Case,
    append_again,
    append_keyed,
    append_once,
    append_to_one_partition,
    events,
    filled,
    opened,
    read,
)

pytestmark = needs_core

COUNT = 3_000
#: The call itself makes a few objects; one for each value would be four runs at least.
RUNS_MAX = 2


def offsets(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    made = log.append_many("t", events(count))
    return lambda: [receipt.offset for receipt in made]


def offsets_of_repeats(log: Log, count: int) -> Call:
    made: Any = append_again(log, count)()
    return lambda: [receipt.offset for receipt in made]


def batches(log: Log, count: int) -> Call:
    filled(log, count)
    return lambda: list(log.read_batches("t", 0, 0))


def runs(store: str, case: Case, folder: Path) -> int:
    """Return how often the collector runs within the call."""
    for name in ("first", "second"):
        (folder / name).mkdir()
    # Whatever is imported or made but once is not counted.
    with opened(store, folder / "first") as log:
        case(log, 10)()
    with opened(store, folder / "second") as log:
        call = case(log, COUNT)
        gc.collect()
        before = gc.get_stats()[0]["collections"]
        kept = call()
        after = gc.get_stats()[0]["collections"]
        del kept
    return int(after - before)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", [append_again, offsets_of_repeats])
def test_a_repeated_append_of_many_does_not_have_the_collector_run(
    store: str, case: Case, tmp_path: Path
) -> None:
    assert runs(store, case, tmp_path) <= RUNS_MAX


# The rows of sqlite: are tuples.
@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize(
    "case", [append_keyed, append_to_one_partition, append_once, read, batches, offsets]
)
def test_a_call_with_many_values_does_not_have_the_collector_run(
    store: str, case: Case, tmp_path: Path
) -> None:
    assert runs(store, case, tmp_path) <= RUNS_MAX
