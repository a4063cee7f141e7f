"""Every entry."""

from pathlib import Path

import pytest

from benchmarks import engine
from benchmarks.catalogue import entries
from benchmarks.entry import OURS, Entry
from benchmarks.sizes import TINY
from tools.kafka_jars import NoJarsError, kafka_jars

pytestmark = pytest.mark.slow

ENTRIES = entries(TINY)


def test_each_name_is_given_once() -> None:
    names = [entry.name for entry in ENTRIES]

    assert len(names) == len(set(names))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "entry",
    [
        entry
        for entry in ENTRIES
        if entry.missing is None and not entry.name.startswith(("spark.", "engine.kafka."))
    ],
    ids=lambda entry: entry.name,
)
def test_each_contender_does_a_round(entry: Entry, tmp_path: Path) -> None:
    check_round(entry, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["single", "batch1000", "sixteen", "tail"])
def test_each_contender_on_kafka_does_a_round(name: str, tmp_path: Path) -> None:
    # Its entries are listed once its jars are there, which another test may fetch meanwhile: all
    # processes of a run have to collect the same tests.
    try:
        kafka_jars()
    except NoJarsError as error:
        pytest.skip(str(error))
    (entry,) = (each for each in engine.entries(TINY) if each.name == f"engine.kafka.{name}")

    check_round(entry, tmp_path)


def check_round(entry: Entry, tmp_path: Path) -> None:
    contenders = entry.contenders(tmp_path)

    figures = {name: contender() for name, contender in contenders.items()}

    assert all(figure > 0 for figure in figures.values())
    beside = figures.keys() - {OURS} | entry.best_peer(figures).keys()
    assert entry.bars.keys() <= beside
