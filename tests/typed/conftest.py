"""Logs of every kind, as they are opened."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from tests.logs import SCHEMES, OpenAgain, opened_again


@pytest.fixture(params=SCHEMES)
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    with opened_again(request.param, tmp_path) as open_log:
        yield open_log


@pytest.fixture
def log(open_again: OpenAgain) -> sl.Log:
    """Return a log of each kind."""
    return open_again()
