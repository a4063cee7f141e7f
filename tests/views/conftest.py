"""A log for each backend, opened as often as a test likes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log

OpenAgain = Callable[[], Log]


# The room knows no store: two are enough, and make test-all has the third.
@pytest.fixture(params=["memory", "file", pytest.param("sqlite", marks=pytest.mark.heavy)])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    """Return what gives the same log each time, as another process would open it."""
    opened: list[Log] = []

    def open_log() -> Log:
        if request.param == "memory" and opened:
            return opened[0]
        url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
        opened.append(sl.open(url))
        return opened[-1]

    open_log().create_topic("accounts", partitions=2)
    yield open_log
    for log in opened:
        log.close()


@pytest.fixture
def log(open_again: OpenAgain) -> Log:
    """Return the log, once."""
    return open_again()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a snapshot goes."""
    return tmp_path / "accounts.snapshot"
