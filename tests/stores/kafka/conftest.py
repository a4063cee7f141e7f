"""One broker for all tests of a worker, and a prefix of its own for each log."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.stores.kafka.server import KafkaServer, NoServerError

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[KafkaServer]:
    """A broker that no test kills."""
    try:
        found = KafkaServer()
    except NoServerError as error:
        pytest.skip(f"Kafka cannot be started: {error}")
    yield found
    found.close()


@pytest.fixture
def new_url(server: KafkaServer) -> Callable[[], str]:
    """Return the URL of a log that is not there yet, each time."""
    return lambda: server.url(f"t{os.getpid()}_{next(_NUMBERS)}")
