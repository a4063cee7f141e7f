"""A partition changes hands: who lost it is told the truth, and nobody else notices."""

from pathlib import Path

import pytest

from tests.processes import restores, takeovers
from tests.processes.fork_server import ForkServer
from tests.processes.stores import HAS_FILES, url_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_FILES, reason="only file: logs can be taken over"),
]


@pytest.mark.parametrize("change", takeovers.CHANGES, ids=str)
def test_a_writer_that_wakes_when_another_has_its_partition_is_told_the_truth(
    server: ForkServer, change: takeovers.Change
) -> None:
    assert takeovers.sweep(server, change) > 3


def test_an_owner_is_named_and_can_be_robbed(server: ForkServer, tmp_path: Path) -> None:
    guest, *_ = takeovers.own_and_lose(server, url_in("file", tmp_path))

    assert guest[:2] == ["refused", "guest"]
    assert guest[4] == "UnavailableError"
    assert "pid=" in guest[5]


@pytest.mark.parametrize("number", range(5))
def test_a_restored_copy_keeps_what_is_acknowledged_after_it_and_tells_stored_positions(
    server: ForkServer, seed: int, number: int
) -> None:
    restores.run(server, seed + number)
