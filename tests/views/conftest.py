"""A log for each backend, which a test may open repeatedly."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from tests.logs import SCHEMES, OpenAgain, opened_again


@pytest.fixture(params=SCHEMES)
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    with opened_again(request.param, tmp_path) as open_log:
        open_log().create_topic("accounts", partitions=2)
        yield open_log


@pytest.fixture
def log(open_again: OpenAgain) -> Log:
    """Return the log, once."""
    return open_again()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a snapshot goes."""
    return tmp_path / "accounts.snapshot"
