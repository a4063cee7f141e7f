"""The table of benchmarks is what was measured last, wherever it is shown."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.results import load
from tools.benchmark_table import PAGES, RESULTS, table, written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_shows_the_results(page: Path) -> None:
    results = load(RESULTS)
    assert results is not None

    shown = page.read_text()

    assert shown == written(shown, table(results.entries)), "run python -m tools.benchmark_table"


def test_another_result_is_another_page() -> None:
    results = load(RESULTS)
    assert results is not None
    page = PAGES[0].read_text()
    doubled = [msgspec.structs.replace(each, ours=2 * each.ours) for each in results.entries]

    assert written(page, table(doubled)) != page
