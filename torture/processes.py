"""Processes that are killed, stopped and failed, one seed at a time, on each kind of log."""

import atexit
import functools

from tests.processes import fights, joins, kills, sweeps
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES
from tests.processes.sweeps import FAULTS

STRIDE = 16


@functools.cache
def _server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server


def _scheme(seed: int) -> str:
    return SCHEMES[seed % len(SCHEMES)]


def kill(seed: int) -> None:
    """Kill `kills.KILLS_PER_LOG` writers at random moments."""
    kills.run(_server(), _scheme(seed), seed)


def kill_consumers(seed: int) -> None:
    """Kill a consumer until it has had everything."""
    joins.kill_consumers(_server(), _scheme(seed), seed)


def fight(seed: int) -> None:
    """Have one fight."""
    fights.run(_server(), _scheme(seed), seed)


def join(seed: int) -> None:
    """Let `joins.JOINS_PER_LOG` readers join."""
    joins.run(_server(), _scheme(seed), seed)


def sweep(seed: int) -> None:
    """Fail, or kill at, every STRIDE-th call, from another one on with each seed."""
    round_, scheme = seed // len(SCHEMES), _scheme(seed)
    kind = round_ % (len(FAULTS) + 2)
    first = 1 + round_ // (len(FAULTS) + 2) % STRIDE
    if kind < len(FAULTS):
        sweeps.fault_sweep(_server(), scheme, FAULTS[kind], first=first, stride=STRIDE, openings=1)
    else:
        sweeps.kill_sweep(
            _server(),
            scheme,
            halfways=[kind == len(FAULTS)],
            first=first,
            stride=STRIDE,
            openings=1,
        )
