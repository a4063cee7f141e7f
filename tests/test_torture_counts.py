"""Tortures that continue where the last run ended, and the page that shows their counts."""

from pathlib import Path

import pytest

from tools.this_run import Run
from tools.torture_table import PAGE, written
from torture.counts import AlreadyCountingError, Counts, counting, load, table
from torture.mutants import outcomes
from torture.mutants.outcomes import Outcome

MONDAY = Run("2026-11-16", "aaaaaaaa")
TUESDAY = Run("2026-11-17", "bbbbbbbb")


def test_a_later_run_continues_with_the_seeds_that_are_left(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    counts = Counts(path, MONDAY)
    assert counts.seeds("kills", 10, first=100) == range(100, 110)
    for seed in (101, 100, 102):
        counts.add("kills", seed, has_passed=True)
    counts.add("kills", 103, has_passed=False)
    counts.save()

    later = Counts(path, TUESDAY)

    assert later.seeds("kills", 10, first=7) == range(104, 111)
    later.add("kills", 104, has_passed=True)
    later.seeds("joins", 5, first=7)
    later.save()
    assert table(load(path)).splitlines()[2:] == [
        "| kills | 4 | 10 | 1 | 2026-11-16, `aaaaaaaa` | 2026-11-17, `bbbbbbbb` |"
    ]


def test_a_full_count_has_no_seeds_left(tmp_path: Path) -> None:
    counts = Counts(tmp_path / "counts.json", MONDAY)
    for seed in counts.seeds("kills", 3, first=0):
        counts.add("kills", seed, has_passed=True)

    assert len(counts.seeds("kills", 3, first=0)) == 0


def test_one_torture_counts_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"

    with counting(path), pytest.raises(AlreadyCountingError), counting(path):
        pass

    with counting(path):
        pass


def test_the_page_shows_the_counts_that_are_stored() -> None:
    assert PAGE.read_text() == written(PAGE.read_text()), "run make pages"


def test_mutants_are_counted_for_each_room() -> None:
    noticed = Outcome("writes/drain.py:f", 1, "a < b", "a <= b", "test_a", "quick", MONDAY)
    survivor = Outcome("writes/drain.py:g", 2, "0", "1", None, "rest", TUESDAY)
    other = Outcome("log/terms.py:h", 3, "0", "1", None, "quick", TUESDAY)

    assert outcomes.table([noticed, survivor, other], {survivor.name}).splitlines()[2:] == [
        "| `log` | 1 | 0 | 0% | 0 | 1 |",
        "| `writes` | 2 | 1 | 50% | 1 | 0 |",
    ]
