"""A server of Flight in a thread, and clients for it."""

from collections.abc import Callable, Iterator

import pytest
from pyarrow import flight

from strandline.log import Log
from tests.server.flight.flights import FlightServed, client_of


@pytest.fixture
def serve_flight() -> Iterator[Callable[..., FlightServed]]:
    """Start servers, which end with the test."""
    running: list[FlightServed] = []

    def start(log: Log, *args: object) -> FlightServed:
        running.append(FlightServed(log, *args))  # type: ignore[arg-type]
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture(scope="module")
def served(shared_log: Log) -> Iterator[FlightServed]:
    """A server of all tests of a module."""
    served = FlightServed(shared_log)
    yield served
    served.stop()


@pytest.fixture
def client(served: FlightServed) -> Iterator[flight.FlightClient]:
    """A client without a token."""
    with client_of(served) as client:
        yield client
