"""The entries of Spark, in the session that the tests share."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import spark as reading
from benchmarks import spark_large, spark_sink
from benchmarks.entry import OURS, Entry
from benchmarks.sizes import TINY

ENTRIES = (*reading.entries(TINY), *spark_sink.entries(TINY), *spark_large.entries(TINY))


@pytest.mark.heavy
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_contender_does_a_round(entry: Entry, spark: SparkSession, tmp_path: Path) -> None:
    scratch = tmp_path / "entry"
    scratch.mkdir()

    figures = {name: contender() for name, contender in entry.contenders(scratch).items()}

    assert all(figure > 0 for figure in figures.values())
    assert entry.bars.keys() <= figures.keys() - {OURS}
