"""The table of benchmarks is what was measured last, wherever it is shown."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.results import load
from tools.benchmark_table import PAGES, README, RESULTS, table, written
from tools.this_run import Run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_shows_the_results(page: Path) -> None:
    results = load(RESULTS)
    assert results is not None

    shown = page.read_text()

    assert shown == written(shown, table(page, results.entries)), "run make pages"


def test_another_result_is_another_page() -> None:
    results = load(RESULTS)
    assert results is not None
    page = README.read_text()
    doubled = [msgspec.structs.replace(each, ours=2 * each.ours) for each in results.entries]

    assert written(page, table(README, doubled)) != page


def test_a_table_names_each_day_once() -> None:
    results = load(RESULTS)
    assert results is not None
    runs = [Run("2026-01-02", "b"), Run("2026-01-02", "a"), Run("2026-01-01", "c")]
    entries = [
        msgspec.structs.replace(each, run=runs[at % 3]) for at, each in enumerate(results.entries)
    ]

    last = table(PAGES[-1], entries).splitlines()[-1]

    assert last == "Measured on 2026-01-01, `c`; 2026-01-02, `a` and `b`."


def test_the_small_table_says_where_we_are_slower() -> None:
    results = load(RESULTS)
    assert results is not None

    rows = [row for row in table(README, results.entries).splitlines() if row.startswith("|")]
    ratios = [row.rsplit("|", 2)[1] for row in rows[2:]]

    assert 3 <= len(ratios) <= 6
    assert any(float(each) < 1 for line in ratios for each in line.split(";"))
