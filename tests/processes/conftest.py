"""One fork server for all tests of a run, or of a process of it."""

import os
from collections.abc import Iterator

import pytest

from tests.processes.fork_server import ForkServer


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.fixture
def seed() -> int:
    """Differs each time; a failure names the one that repeats it."""
    return int.from_bytes(os.urandom(4), "big")
