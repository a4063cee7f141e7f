"""A log for each test, in every kind of storage that Spark can reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl


@pytest.fixture(params=["file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path / 'log'}"


@pytest.fixture
def log(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as opened:
        yield opened
