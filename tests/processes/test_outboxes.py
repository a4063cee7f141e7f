"""SIGKILL at any moment, and at every line: rows and events are both stored, or neither."""

import pytest

from tests.processes import outboxes
from tests.processes.fork_server import ForkServer

LOGS = 2
#: A long way for make test, a shorter one for all of it; each line has its turn in torture.
STRIDE, SHORT_STRIDE = 151, 37


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_rows_and_events_together(
    server: ForkServer, seed: int
) -> None:
    assert outboxes.run(server, seed) == outboxes.KILLS_PER_LOG


@pytest.mark.slow
def test_a_kill_at_some_lines_leaves_rows_and_events_together(
    server: ForkServer, seed: int
) -> None:
    assert outboxes.sweep(server, first=1 + seed % STRIDE, stride=STRIDE) > 5


@pytest.mark.heavy
def test_many_kills_leave_rows_and_events_together(server: ForkServer, seed: int) -> None:
    killed = sum(outboxes.run(server, seed + number) for number in range(LOGS))

    assert killed == LOGS * outboxes.KILLS_PER_LOG


@pytest.mark.heavy
def test_a_kill_at_many_lines_leaves_rows_and_events_together(
    server: ForkServer, seed: int
) -> None:
    assert outboxes.sweep(server, first=1 + seed % SHORT_STRIDE, stride=SHORT_STRIDE) > 20
