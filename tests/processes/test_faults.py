"""Every I/O call fails in turn: each caller learns one outcome, and the log keeps its word."""

import pytest

from tests.processes import call_sites, sweeps
from tests.processes.fork_server import ForkServer
from tests.processes.stores import FOLDERS, SCHEMES
from tests.processes.sweeps import FAULTS, Fault

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("scheme", SCHEMES)]

#: Of the calls, each fault is tried at every so many here, and at all of them in torture.
STRIDE = 7

#: Functions whose calls take a second process to reach, which fights have, or two faults;
#: or that describe a log, whose tests have faults of their own.
ELSEWHERE: dict[str, set[str]] = {
    "sqlite": {"_holder", "_is_in_use", "suspect"},
    "file": {"holder", "replace"},
}


def test_an_error_at_each_call_loses_nothing_acknowledged(server: ForkServer, scheme: str) -> None:
    counts = sweeps.Counts()
    for fault in FAULTS[:2]:
        found = sweeps.fault_sweep(server, scheme, fault, openings=60)
        counts.trials += found.trials
        counts.sites.update(found.sites)

    known = call_sites.in_source(FOLDERS[scheme])
    unreached = call_sites.unreached(FOLDERS[scheme], counts.sites)
    print(f"{counts.trials} trials, {len(known) - len(unreached)} of {len(known)} calls")  # noqa: T201
    assert known
    assert {site.function for site in unreached} <= ELSEWHERE[scheme], [*map(str, unreached)]


@pytest.mark.parametrize("fault", FAULTS[2:], ids=str)
def test_no_fault_at_any_call_loses_anything_acknowledged(
    server: ForkServer, scheme: str, fault: Fault, seed: int
) -> None:
    counts = sweeps.fault_sweep(
        server, scheme, fault, first=1 + seed % STRIDE, stride=STRIDE, openings=20
    )

    assert counts.trials
