"""Logs of every kind, as they are opened."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strandline as sl

OpenAgain = Callable[[], sl.Log]


# The room knows no store: two are enough, and make test-all has the third.
@pytest.fixture(params=["memory", "file", pytest.param("sqlite", marks=pytest.mark.heavy)])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    """Return what gives the same log each time, as another process would open it."""
    opened: list[sl.Log] = []

    def open_log() -> sl.Log:
        if request.param == "memory" and opened:
            return opened[0]
        url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
        opened.append(sl.open(url))
        return opened[-1]

    yield open_log
    for log in opened:
        log.close()


@pytest.fixture
def log(open_again: OpenAgain) -> sl.Log:
    """Return a log of each kind."""
    return open_again()
