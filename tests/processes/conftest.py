"""One fork server for all tests of a run, or of a process of it."""

import os
from collections.abc import Iterator

import pytest

from strandline.stores.sqlite import logged_bytes
from tests.processes.fork_server import ForkServer


@pytest.fixture(autouse=True)
def checkpoints_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what `open_store` has set, for later tests of the same process."""
    monkeypatch.setattr(logged_bytes, "CHECKPOINT_BYTES", logged_bytes.CHECKPOINT_BYTES)


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.fixture
def seed() -> int:
    """Differs each time; a failure names the one that repeats it."""
    return int.from_bytes(os.urandom(4), "big")
