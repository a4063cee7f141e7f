"""Processes that are killed, stopped and failed, one seed at a time, on each kind of log."""

import atexit
import functools

from tests.processes import (
    catalogue_kills,
    contention,
    group_runs,
    joins,
    kills,
    outboxes,
    poison_kills,
    restores,
    sweeps,
    takeovers,
    trigger_kills,
)
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES
from tests.processes.sweeps import FAILED_SYNC, WORKLOADS
from tests.processes.sweeps import FAULTS as FAULTS_OF_CALLS

FAULTS = (*FAULTS_OF_CALLS, FAILED_SYNC)
GROUP_SIZES = (2, 3, 4, 8, 16)
STRIDE = 16
OUTBOX_STRIDE = 151
#: A little more than there are. Primes, so that the other counts are not multiples of them.
TAKEOVER_CALLS = 61
OVERTAKING_CALLS = 101
#: How many seeds it takes to reach every call.
SWEEPS = len(SCHEMES) * (len(FAULTS) + 2) * max(map(len, WORKLOADS.values())) * STRIDE
TAKEOVERS = len(takeovers.CHANGES) * TAKEOVER_CALLS


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
    """Kill a consumer until it has processed everything."""
    joins.kill_consumers(_server(), _scheme(seed), seed)


def disturb_groups(seed: int) -> None:
    """Kill, stop and continue members of a group of 2 to 16 while others join and leave."""
    members = GROUP_SIZES[seed // len(SCHEMES) % len(GROUP_SIZES)]
    group_runs.run(_server(), _scheme(seed), seed, members=members)


def contend(seed: int) -> None:
    """Run concurrent writers once."""
    contention.run(_server(), _scheme(seed), seed)


def join(seed: int) -> None:
    """Let `joins.JOINS_PER_LOG` readers join."""
    joins.run(_server(), _scheme(seed), seed)


def take_over(seed: int) -> None:
    """Take partitions over at one call, in each way."""
    change = takeovers.CHANGES[seed % len(takeovers.CHANGES)]
    takeovers.take_over_at(_server(), change, 1 + seed % TAKEOVER_CALLS)
    for holder in takeovers.HOLDERS:
        takeovers.overtake_at(_server(), holder, 1 + seed % OVERTAKING_CALLS)


def share_transactions(seed: int) -> None:
    """Kill writers of rows and events, at random moments and at every OUTBOX_STRIDE-th line."""
    outboxes.run(_server(), seed)
    outboxes.sweep(_server(), first=1 + seed % OUTBOX_STRIDE, stride=OUTBOX_STRIDE)


def kill_triggers(seed: int) -> None:
    """Kill `trigger_kills.KILLS_PER_LOG` processes that handle events."""
    trigger_kills.run(_server(), _scheme(seed), seed)


def poison(seed: int) -> None:
    """Have a record kill its process while other records are in flight."""
    round_ = seed // len(SCHEMES)
    concurrencies = poison_kills.CONCURRENCIES
    concurrency = concurrencies[round_ // 2 % len(concurrencies)]
    by = ("handle", "consume")[round_ % 2]
    poison_kills.run(_server(), _scheme(seed), concurrency, by=by)


@functools.cache
def _tiering_server() -> ForkServer:
    server = ForkServer("tiering_processes")
    atexit.register(server.close)
    return server


def kill_tiering(seed: int) -> None:
    """Kill processes that tier, sweep, trim and try to shorten the catalogue of one log."""
    catalogue_kills.run(_tiering_server(), _scheme(seed), seed)


def restore(seed: int) -> None:
    """Replace a log by an older copy."""
    restores.run(_server(), seed)


def sweep(seed: int) -> None:
    """Fail, or kill at, every STRIDE-th call; the seed selects the first one."""
    round_, scheme = seed // len(SCHEMES), _scheme(seed)
    workloads, kinds = WORKLOADS[scheme], len(FAULTS) + 2
    workload = workloads[round_ // kinds % len(workloads)]
    kind = round_ % kinds
    first = 1 + round_ // kinds // len(workloads) % STRIDE
    if kind < len(FAULTS):
        counts = sweeps.fault_sweep(
            *(_server(), scheme, FAULTS[kind]),
            first=first,
            stride=STRIDE,
            openings=1,
            workload=workload,
        )
        assert not counts.untyped, counts.untyped
    else:
        sweeps.kill_sweep(
            _server(),
            scheme,
            halfways=[kind == len(FAULTS)],
            first=first,
            stride=STRIDE,
            openings=1,
            workload=workload,
        )
