"""Each bug that is planted in the processes is noticed by the slice that ought to."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import (
    contention,
    group_runs,
    holder,
    joins,
    kills,
    outboxes,
    poison_kills,
    sweeps,
    takeovers,
    trigger_kills,
)
from tests.processes.fork_server import ForkServer
from tests.processes.planted_bugs import PROCESS_BUGS, Planted
from tests.processes.stores import url_in
from tests.processes.sweeps import FAILED_SYNC
from tests.processes.test_strace import WHY_NOT, traced_faults

Slice = Callable[[ForkServer, Planted, int, Path], None]


def by_kills(server: ForkServer, bug: Planted, seed: int, _: Path) -> None:
    for number in range(6):
        kills.run(server, bug.scheme, seed + number, bug=bug.title)


def by_the_kill_sweep(server: ForkServer, bug: Planted, _: int, __: Path) -> None:
    sweeps.kill_sweep(server, bug.scheme, openings=40, bug=bug.title)


def by_faults(server: ForkServer, bug: Planted, _: int, __: Path) -> None:
    sweeps.fault_sweep(server, bug.scheme, FAILED_SYNC, openings=60, bug=bug.title)


def by_contention(server: ForkServer, bug: Planted, seed: int, _: Path) -> None:
    for number in range(20):
        contention.run(server, bug.scheme, seed + number, bug=bug.title)


def by_the_holder(server: ForkServer, bug: Planted, _: int, folder: Path) -> None:
    holder.check_stopped_holder(server, url_in(bug.scheme, folder / "0"), bug=bug.title)
    holder.check_removed_lock(server, url_in(bug.scheme, folder / "1"), bug=bug.title)


def by_joins(server: ForkServer, bug: Planted, seed: int, _: Path) -> None:
    for number in range(10):
        joins.run(server, bug.scheme, seed + number, bug=bug.title)


def by_consumers(server: ForkServer, bug: Planted, seed: int, _: Path) -> None:
    for number in range(3):
        joins.kill_consumers(server, bug.scheme, seed + number, bug=bug.title)


def by_groups(server: ForkServer, bug: Planted, _: int, __: Path) -> None:
    group_runs.check_sleeper(server, bug.scheme, bug=bug.title)


def by_outboxes(server: ForkServer, bug: Planted, seed: int, _: Path) -> None:
    for number in range(4):
        outboxes.run(server, seed + number, bug=bug.title)


def by_triggers(server: ForkServer, bug: Planted, seed: int, _: Path) -> None:
    for number in range(4):
        trigger_kills.run(server, bug.scheme, seed + number, bug=bug.title)


def by_a_poison(by: str) -> Slice:
    def handle(server: ForkServer, bug: Planted, _: int, __: Path) -> None:
        for concurrency in poison_kills.CONCURRENCIES[1:]:
            poison_kills.run(server, bug.scheme, concurrency, by=by, bug=bug.title)

    return handle


def by_strace(_: ForkServer, bug: Planted, __: int, folder: Path) -> None:
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    found = traced_faults(bug.scheme, folder, bug.title)
    assert not found, found[0]


def by_take_overs(server: ForkServer, bug: Planted, _: int, __: Path) -> None:
    for change in takeovers.CHANGES:
        if change.level == "written" and change.before == 1:
            takeovers.sweep(server, change, bug=bug.title)


def by_overtaking(holder: str) -> Slice:
    def overtake(server: ForkServer, bug: Planted, _: int, __: Path) -> None:
        for nth in range(1, takeovers.CALLS_MAX):
            if not takeovers.overtake_at(server, holder, nth, bug=bug.title):
                return

    return overtake


def by_a_fenced_owner(server: ForkServer, bug: Planted, _: int, folder: Path) -> None:
    heard = takeovers.own_until_fenced(server, url_in(bug.scheme, folder), bug=bug.title)
    assert [each[0] for each in heard[2:-1]] == ["refused"] * 4, heard


SLICES: dict[str, Slice] = {
    "kills": by_kills,
    "kill sweep": by_the_kill_sweep,
    "faults": by_faults,
    "contention": by_contention,
    "holder": by_the_holder,
    "joins": by_joins,
    "outboxes": by_outboxes,
    "consumers": by_consumers,
    "groups": by_groups,
    "triggers": by_triggers,
    "poison": by_a_poison("handle"),
    "poison in a batch": by_a_poison("consume"),
    "strace": by_strace,
    "take-overs": by_take_overs,
    "a writer who continues": by_overtaking("a writer"),
    "two takers": by_overtaking("another taker"),
    "a fenced owner": by_a_fenced_owner,
}


@pytest.mark.heavy
@pytest.mark.parametrize("planted", PROCESS_BUGS, ids=str)
def test_the_slices_catch_a_planted_bug(
    server: ForkServer, planted: Planted, seed: int, tmp_path: Path
) -> None:
    with planted.bug.planted():
        pass

    with pytest.raises(AssertionError):
        SLICES[planted.caught_by](server, planted, seed, tmp_path)
