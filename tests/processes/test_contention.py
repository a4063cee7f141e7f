"""Several writing processes and one partition: each event has its own offset."""

from pathlib import Path

import pytest

from tests.processes import contention, holder
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES, url_in

pytestmark = pytest.mark.parametrize("scheme", SCHEMES)

#: Many more are in torture.
ROUNDS = 4


@pytest.mark.slow
def test_writers_that_are_killed_stopped_and_locked_out_lose_and_double_nothing(
    server: ForkServer, scheme: str, seed: int
) -> None:
    for number in range(ROUNDS):
        contention.run(server, scheme, seed + number)


@pytest.mark.slow
def test_a_stopped_holder_of_the_lock_is_named_in_the_error_of_waiters(
    server: ForkServer, scheme: str, tmp_path: Path
) -> None:
    holder.check_stopped_holder(server, url_in(scheme, tmp_path))


@pytest.mark.slow
def test_a_lock_file_removed_under_its_holder_costs_no_record(
    server: ForkServer, scheme: str, tmp_path: Path
) -> None:
    holder.check_removed_lock(server, url_in(scheme, tmp_path))
