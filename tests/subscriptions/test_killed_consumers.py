"""Consumers that are killed while they handle a record, and those that come after them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from tests.subscriptions.poisoned_consumer import POISON

DELIVERIES_MAX = 3
LIVES_MAX = 2 * DELIVERIES_MAX


@pytest.fixture
def url(tmp_path: Path) -> str:
    named = f"sqlite:{tmp_path / 'events.db'}"
    with sl.open(named) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("order.created", number) for number in range(5)])
    return named


@pytest.mark.parametrize("mode", ["write", "consume"])
def test_a_record_that_kills_its_process_each_time_is_parked(url: str, mode: str) -> None:
    """In `consume` mode, too, which may create what this needs."""
    lives = [live(url, mode)]
    while lives[-1][0] and len(lives) < LIVES_MAX:
        lives.append(live(url, mode))

    assert [code for code, _ in lives] == [-signal.SIGKILL] * DELIVERIES_MAX + [0]
    assert [seen for _, seen in lives] == [
        [(0, 1), (1, 1), (POISON, 1)],
        [(POISON, 2)],
        [(POISON, 3)],
        [(3, 1), (4, 1)],
    ]
    with sl.open(url, mode="read") as log:
        (parked,) = log.read("__strandline.parked.orders", 0, 0)
        assert parked.payload == POISON
        assert log.cursor("orders", "billing", 0) == 5


def live(url: str, mode: str) -> tuple[int, list[tuple[int, ...]]]:
    """Return how one process ended, and what it was given: (offset, count)."""
    command = [sys.executable, "-m", "tests.subscriptions.poisoned_consumer"]
    done = subprocess.run(
        [*command, url, mode, str(DELIVERIES_MAX)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    seen = [tuple(int(word) for word in line.split()) for line in done.stdout.splitlines()]
    return done.returncode, seen
