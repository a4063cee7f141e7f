"""One server for all tests of a worker, and a schema of its own for each log."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.stores.postgres.server import NoServerError, PostgresServer

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server that no test kills."""
    try:
        found = PostgresServer()
    except NoServerError as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")
    yield found
    found.close()


@pytest.fixture
def new_url(server: PostgresServer) -> Callable[[], str]:
    """Return the URL of a log that is not there yet, each time."""
    return lambda: server.url(f"t{os.getpid()}_{next(_NUMBERS)}")
