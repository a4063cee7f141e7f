"""Groups whose members are killed, stopped and woken: each record is acked once by its holder."""

import pytest

from tests.processes import group_runs
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "members"), [*zip(SCHEMES, (3, 5), strict=True)])
def test_members_that_are_disturbed_handle_each_record_once_and_lose_none(
    server: ForkServer, scheme: str, members: int, seed: int
) -> None:
    history = group_runs.run(server, scheme, seed, members=members)

    assert history.generations > 1


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_member_that_slept_through_its_lease_is_refused(server: ForkServer, scheme: str) -> None:
    group_runs.check_sleeper(server, scheme)
