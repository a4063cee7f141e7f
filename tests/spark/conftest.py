"""A log for each test, in every kind of storage that Spark can reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl


# Spark's room knows no store: one is enough, but for the kills of test_sink_kills.py.
@pytest.fixture(params=["file", pytest.param("sqlite", marks=pytest.mark.heavy)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path / 'log'}"


@pytest.fixture
def log(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as opened:
        yield opened
