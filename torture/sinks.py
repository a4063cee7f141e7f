"""Spark's writers, killed one seed at a time: the sink alone, and whole drivers with their Java."""

import atexit
import functools
import tempfile
from pathlib import Path

from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES
from tests.spark import driver_kills, sink_kills


@functools.cache
def _server() -> ForkServer:
    server = ForkServer("sinks")
    atexit.register(server.close)
    return server


def kill_sink(seed: int) -> None:
    """Kill `sink_kills.KILLS_PER_LOG` processes that stage and commit."""
    sink_kills.run(_server(), SCHEMES[seed % len(SCHEMES)], seed)


def kill_drivers(seed: int) -> None:
    """Kill a driver at each point of the sink, in another order with each seed."""
    with tempfile.TemporaryDirectory() as folder:
        driver_kills.run(Path(folder), seed)
