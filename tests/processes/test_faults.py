"""Every I/O call fails in turn: each caller learns one outcome, and the log keeps its word."""

import pytest

from tests.processes import call_sites, sweeps
from tests.processes.fork_server import ForkServer
from tests.processes.stores import FOLDERS, SCHEMES
from tests.processes.sweeps import FAULTS, Fault

pytestmark = pytest.mark.slow

#: Of the calls, each fault is tried at every so many here, and at all of them in torture.
STRIDES = {"sqlite": 7, "file": 41}

#: Functions whose calls take a second process to reach, which fights have, or two faults;
#: or that describe a log, whose tests have faults of their own.
ELSEWHERE = {"_holder", "_is_in_use", "suspect"}


def test_an_error_at_each_call_loses_nothing_acknowledged(server: ForkServer) -> None:
    counts = sweeps.Counts()
    for fault in FAULTS[:2]:
        found = sweeps.fault_sweep(server, "sqlite", fault, openings=60)
        counts.trials += found.trials
        counts.sites.update(found.sites)
        counts.untyped.update(found.untyped)

    known = call_sites.in_source(FOLDERS["sqlite"])
    unreached = call_sites.unreached(FOLDERS["sqlite"], counts.sites)
    print(f"{counts.trials} trials, {len(known) - len(unreached)} of {len(known)} calls")  # noqa: T201
    assert not counts.untyped
    assert {site.function for site in unreached} <= ELSEWHERE, [*map(str, unreached)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_no_fault_at_any_call_loses_anything_acknowledged(
    server: ForkServer, scheme: str, fault: Fault, seed: int
) -> None:
    stride = STRIDES[scheme]
    counts = sweeps.fault_sweep(
        server, scheme, fault, first=1 + seed % stride, stride=stride, openings=20
    )

    assert counts.trials
    if counts.untyped and scheme == "file":
        pytest.xfail(f"errors of the operating system come through: {dict(counts.untyped)}")
    assert not counts.untyped
