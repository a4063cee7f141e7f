"""Every entry."""

from pathlib import Path

import pytest

from benchmarks import coordinator
from benchmarks.catalogue import ENTRIES
from benchmarks.entry import Entry


def test_each_name_is_given_once() -> None:
    names = [entry.name for entry in ENTRIES]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("entry", coordinator.ENTRIES, ids=lambda entry: entry.name)
def test_each_contender_of_the_coordinator_does_a_round(entry: Entry, tmp_path: Path) -> None:
    contenders = entry.contenders(tmp_path)

    assert all(contender() > 0 for contender in contenders.values())
    assert entry.bars.keys() <= contenders.keys() - {"ours"}
    assert not list(tmp_path.iterdir())
