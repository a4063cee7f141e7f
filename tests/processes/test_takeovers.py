"""Take-overs of a partition: a fenced writer gets the right outcome, others notice nothing."""

from pathlib import Path

import pytest

from tests.processes import restores, takeovers
from tests.processes.fork_server import ForkServer
from tests.processes.stores import url_in

#: At every so many calls here, at all of them in torture.
STRIDE = 4
OVERTAKING_STRIDE = 17

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("change", takeovers.CHANGES, ids=str)
def test_a_writer_that_wakes_when_another_has_its_partition_gets_the_right_outcome(
    server: ForkServer, change: takeovers.Change, seed: int
) -> None:
    assert takeovers.sweep(server, change, first=1 + seed % STRIDE, stride=STRIDE)


def test_an_owner_is_named_and_can_be_fenced(server: ForkServer, tmp_path: Path) -> None:
    guest, held_by, *owner_errors, owner = takeovers.own_until_fenced(
        server, url_in("file", tmp_path)
    )

    assert (guest[1], guest[4]) == ("guest", "UnavailableError")
    assert held_by == ["held by", owner[1]]
    # It has to open again: otherwise both would continue to write in turn.
    assert [(each[0], each[4]) for each in owner_errors] == [("refused", "ClosedError")] * 4


@pytest.mark.parametrize("holder", takeovers.HOLDERS)
def test_a_process_that_takes_over_may_be_overtaken_at_any_call(
    server: ForkServer, holder: str, seed: int
) -> None:
    nth = 1 + seed % OVERTAKING_STRIDE
    while takeovers.overtake_at(server, holder, nth):
        nth += OVERTAKING_STRIDE
    assert nth > OVERTAKING_STRIDE


@pytest.mark.parametrize("number", range(2))
def test_a_restored_copy_keeps_what_is_acknowledged_after_it_and_resolves_stored_positions(
    server: ForkServer, seed: int, number: int
) -> None:
    restores.run(server, seed + number)
