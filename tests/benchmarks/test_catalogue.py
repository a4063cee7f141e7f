"""Every entry."""

from pathlib import Path

import pytest

from benchmarks.catalogue import entries
from benchmarks.entry import OURS, Entry
from benchmarks.sizes import TINY

pytestmark = pytest.mark.slow

ENTRIES = entries(TINY)


def test_each_name_is_given_once() -> None:
    names = [entry.name for entry in ENTRIES]

    assert len(names) == len(set(names))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if not entry.name.startswith("spark.")],
    ids=lambda entry: entry.name,
)
def test_each_contender_does_a_round(entry: Entry, tmp_path: Path) -> None:
    contenders = entry.contenders(tmp_path)

    figures = {name: contender() for name, contender in contenders.items()}

    assert all(figure > 0 for figure in figures.values())
    beside = figures.keys() - {OURS} | entry.best_peer(figures).keys()
    assert entry.bars.keys() <= beside
