"""The server that all tests of a process share."""

import pytest

from tests.stores.engines import EngineServers
from tests.stores.jetstream.server import NatsServer


@pytest.fixture(scope="session")
def server(servers: EngineServers) -> NatsServer:
    """A server that no test kills."""
    return servers.shared(NatsServer)
