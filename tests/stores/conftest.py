"""Logs on the servers of engines; a module of one engine has its own `server`."""

import itertools
import os
from collections.abc import Callable

import pytest

from tests.stores.engines import ENGINES, EngineServer, EngineServers

_NUMBERS = itertools.count()


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest, servers: EngineServers) -> EngineServer:
    """A server of each engine, which no test kills."""
    found: EngineServer = servers.shared(request.param)
    return found


@pytest.fixture
def new_url(server: EngineServer) -> Callable[[], str]:
    """Return the URL of a log that is not there yet, each time."""
    return lambda: server.url(new_name())


@pytest.fixture
def mortal(server: EngineServer, servers: EngineServers) -> EngineServer:
    """A server of the same engine that may be killed, and is running when the test ends."""
    return servers.mortal(type(server))


def new_name() -> str:
    """Return the name of a log that is not there yet."""
    return f"t{os.getpid()}_{next(_NUMBERS)}"
