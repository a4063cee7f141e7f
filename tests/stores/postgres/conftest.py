"""The server that all tests of a process share."""

import pytest

from tests.stores.engines import EngineServers
from tests.stores.postgres.server import PostgresServer


@pytest.fixture(scope="session")
def server(servers: EngineServers) -> PostgresServer:
    """A server that no test kills."""
    return servers.shared(PostgresServer)
