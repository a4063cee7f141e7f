"""Readers that join at any moment while processes append: exactly start, start + 1, …."""

import pytest

from tests.processes import joins
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES

#: Many more are in torture.
LOGS = 2


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_readers_that_join_under_load_get_every_record_once_in_order(
    server: ForkServer, scheme: str, seed: int
) -> None:
    joined = sum(joins.run(server, scheme, seed + number) for number in range(LOGS))

    assert joined == LOGS * joins.JOINS_PER_LOG
