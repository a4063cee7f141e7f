"""The server that all tests of a process share."""

import pytest

from tests.stores.engines import EngineServers
from tests.stores.kafka.server import KafkaServer


@pytest.fixture(scope="session")
def server(servers: EngineServers) -> KafkaServer:
    """A server that no test kills."""
    return servers.shared(KafkaServer)
