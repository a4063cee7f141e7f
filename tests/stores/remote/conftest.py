"""Logs behind a server."""

from collections.abc import Iterator

import pytest

from tests.stores.remote.switchboard import Switchboard


@pytest.fixture(scope="session")
def switchboard() -> Iterator[Switchboard]:
    """A server for all tests of a process."""
    switchboard = Switchboard()
    yield switchboard
    switchboard.close()
