"""A server in a thread, and clients for it."""

from collections.abc import Callable, Iterator
from itertools import count

import httpx2
import pytest

from strandline.log import Log
from strandline.server.running import Address
from strandline.server.settings import ServerSettings
from tests.logs import memory_log
from tests.server.certificates import make_certificate
from tests.server.served import Served

_numbers = count()


@pytest.fixture
def log() -> Iterator[Log]:
    log = memory_log()
    yield log
    log.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start servers, which end with the test."""
    running: list[Served] = []

    def start(log: Log, settings: ServerSettings | None = None, *address: Address) -> Served:
        running.append(Served(log, settings, *address))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The paths of a certificate of loopback, and of its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def shared_log() -> Iterator[Log]:
    """A log of all tests of a module, each of which has its own topics."""
    log = memory_log()
    yield log
    log.close()


@pytest.fixture(scope="module")
def served(shared_log: Log) -> Iterator[Served]:
    """A server of all tests of a module."""
    served = Served(shared_log)
    yield served
    served.stop()


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test has."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    """A client without a token."""
    with served.client() as client:
        yield client
