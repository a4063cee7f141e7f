"""SIGKILL at any moment, and at every I/O call: nothing acknowledged is lost or doubled."""

import pytest

from tests.processes import joins, kills, sweeps
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("scheme", SCHEMES)]

LOGS = 2
#: A file log makes many more calls; all of them have their turn in torture.
STRIDES = {"sqlite": 7, "file": 67}


def test_a_kill_at_any_moment_loses_and_doubles_nothing(
    server: ForkServer, scheme: str, seed: int
) -> None:
    killed = sum(kills.run(server, scheme, seed + number) for number in range(LOGS))

    assert killed >= 50


def test_a_kill_at_each_call_of_a_run_and_of_recovery_loses_nothing(
    server: ForkServer, scheme: str, seed: int
) -> None:
    stride = STRIDES[scheme]
    counts = sweeps.kill_sweep(server, scheme, first=1 + seed % stride, stride=stride, openings=20)

    assert counts.trials > 10


def test_what_a_killed_consumer_had_not_acked_is_delivered_again(
    server: ForkServer, scheme: str, seed: int
) -> None:
    assert sum(joins.kill_consumers(server, scheme, seed + number) for number in range(1)) > 2
