"""Every I/O call fails in turn: each caller gets one outcome, and every guarantee holds."""

import pytest

from tests.processes import call_sites, sweeps
from tests.processes.fork_server import ForkServer
from tests.processes.stores import FOLDERS, SCHEMES
from tests.processes.sweeps import FAILED_SYNC, FAULTS, WORKLOADS, Fault

pytestmark = pytest.mark.slow

#: Of the syncs, every so many fail here, and all of them in torture.
SYNC_STRIDE = 4
#: Of the calls, each fault is tried at every so many here, and at all of them in torture.
STRIDES = {"sqlite": 29, "file": 241}

#: Functions whose calls take a second process to reach, as in test_contention.py, or two faults;
#: and those of a block, which changes nothing by itself.
ELSEWHERE = {
    "sqlite": {
        *("_holder", "suspect", "clear_suspicion", "_is_in_use"),
        *("_wal_bytes", "_check_outside"),
    },
    "file": {"load_manifest", "replace", "_read", "_may_still_write", "clear"},
}
#: Copies of a log and erasures have sweeps of their own, see tests/log.
COPIES = ("copying.py", "shortening.py", "erasing.py")


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_workloads_come_to_every_call_in_the_source(server: ForkServer, scheme: str) -> None:
    folder = FOLDERS[scheme]

    unreached = call_sites.unreached(folder, sweeps.sites_reached(server, scheme))

    print(f"{len(call_sites.in_source(folder)) - len(unreached)} calls reached")  # noqa: T201
    missed = [site for site in unreached if not site.file.endswith(COPIES)]
    assert {site.function for site in missed} <= ELSEWHERE[scheme], [*map(str, missed)]


@pytest.mark.parametrize("workload", WORKLOADS["file"])
def test_a_failed_sync_anywhere_acknowledges_nothing(
    server: ForkServer, workload: str, seed: int
) -> None:
    counts = sweeps.fault_sweep(
        *(server, "file", FAILED_SYNC),
        first=1 + seed % SYNC_STRIDE,
        stride=SYNC_STRIDE,
        openings=1000,
        workload=workload,
    )

    assert counts.failed
    assert not counts.untyped


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_no_fault_at_any_call_loses_anything_acknowledged(
    server: ForkServer, scheme: str, fault: Fault, seed: int
) -> None:
    stride = STRIDES[scheme]
    first = 1 + seed % stride
    for workload in WORKLOADS[scheme]:
        counts = sweeps.fault_sweep(
            server, scheme, fault, first=first, stride=stride, openings=10, workload=workload
        )

        assert counts.trials
        assert not counts.untyped
