"""One server for all tests of a worker, and a name of its own for each log."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.stores.jetstream.server import NatsServer, NoServerError

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[NatsServer]:
    """A server that no test kills."""
    try:
        found = NatsServer()
    except NoServerError as error:
        pytest.skip(f"NATS cannot be started: {error}")
    yield found
    found.close()


@pytest.fixture
def new_url(server: NatsServer) -> Callable[[], str]:
    """Return the URL of a log that is not there yet, each time."""
    return lambda: server.url(f"t{os.getpid()}_{next(_NUMBERS)}")
