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


STRIDE = 16
FAULTS = (sink_kills.EIO, sink_kills.ENOSPC)
#: How many seeds it takes to reach every call, with kills before and within it and each fault.
SWEEPS = len(SCHEMES) * (2 + len(FAULTS)) * STRIDE


def sweep_sink(seed: int) -> None:
    """Kill at, or fail, every STRIDE-th call of a sink; the seed selects the first one."""
    turn, scheme = seed // len(SCHEMES), SCHEMES[seed % len(SCHEMES)]
    turn, kind = divmod(turn, 2 + len(FAULTS))
    first = 1 + turn % STRIDE
    if kind < len(FAULTS):
        sink_kills.fail_each_call(scheme, FAULTS[kind], first=first, stride=STRIDE)
    else:
        halfway = kind == len(FAULTS)
        sink_kills.kill_each_call(_server(), scheme, first=first, stride=STRIDE, halfway=halfway)


def kill_drivers(seed: int) -> None:
    """Kill a driver at each point of the sink, in another order with each seed."""
    with tempfile.TemporaryDirectory() as folder:
        driver_kills.run(Path(folder), seed)
