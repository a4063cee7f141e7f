"""Every I/O call fails in turn: each caller learns one outcome, and the log keeps its word."""

import pytest

from tests.processes import call_sites, sweeps
from tests.processes.fork_server import ForkServer
from tests.processes.stores import FOLDERS, SCHEMES
from tests.processes.sweeps import FAULTS, Fault

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("scheme", SCHEMES)]

#: Of the calls, each fault is tried at every so many here, and at all of them in torture.
STRIDE = 7

#: Calls that only other tests reach, and why.
ELSEWHERE = {
    "sqlite": {
        "consume and read modes": "database.py self.io.exists(self.path)",
        "describe": "database.py self.io.stat(path).size",
        "after a failed sync": "store_lock.py self._io.open(self._path, 'create')",
        "a second writer": "store_lock.py self._io.pread(fd, _PID_BYTES, 0)",
    }
}


def test_an_error_at_each_call_loses_nothing_acknowledged(server: ForkServer, scheme: str) -> None:
    counts = sweeps.fault_sweep(server, scheme, FAULTS[0], openings=60)

    unreached = call_sites.unreached(FOLDERS[scheme], set(counts.sites))
    known = len(call_sites.in_source(FOLDERS[scheme]))
    print(f"{counts.trials} trials, {known - len(unreached)} of {known} call sites")  # noqa: T201
    assert counts.struck > 100


@pytest.mark.parametrize("fault", FAULTS[1:], ids=str)
def test_no_fault_at_any_call_loses_anything_acknowledged(
    server: ForkServer, scheme: str, fault: Fault, seed: int
) -> None:
    counts = sweeps.fault_sweep(
        server, scheme, fault, first=1 + seed % STRIDE, stride=STRIDE, openings=20
    )

    assert counts.trials
