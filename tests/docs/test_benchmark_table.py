"""The table of benchmarks is what was measured last, wherever it is shown."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.results import load
from tools.benchmark_table import PAGES, README, RESULTS, table, written


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


def test_the_small_table_says_where_we_are_slower() -> None:
    results = load(RESULTS)
    assert results is not None

    rows = [row for row in table(README, results.entries).splitlines() if row.startswith("|")]
    ratios = [row.rsplit("|", 2)[1] for row in rows[2:]]

    assert 3 <= len(ratios) <= 6
    assert any(float(each) < 1 for line in ratios for each in line.split(";"))
