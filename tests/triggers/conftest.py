"""Logs of every kind, and a clock to move by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.testing import FakeClock
from tests.logs import SCHEMES, OpenAgain, opened_again


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=SCHEMES)
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    with opened_again(request.param, tmp_path) as open_log:
        yield open_log


@pytest.fixture
def log(open_again: OpenAgain) -> sl.Log:
    opened = open_again()
    opened.create_topic("orders", partitions=2)
    return opened
