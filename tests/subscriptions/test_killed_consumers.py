"""Consumers that are killed while they handle a record, and those that come after them."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.clock import SystemClock
from tests.subscriptions.poisoned_consumer import POISON

pytestmark = pytest.mark.slow

DELIVERIES_MAX = 3
RUNS_MAX = 2 * DELIVERIES_MAX


@pytest.fixture
def url(tmp_path: Path) -> str:
    named = f"sqlite:{tmp_path / 'events.db'}"
    with sl.open(named) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("order.created", number) for number in range(5)])
    return named


@pytest.mark.parametrize("mode", ["write", "consume"])
def test_a_record_that_kills_its_process_each_time_is_dead_lettered(url: str, mode: str) -> None:
    """In `consume` mode, too, which may create what this needs."""
    runs = [run_consumer(url, mode)]
    while runs[-1][0] and len(runs) < RUNS_MAX:
        runs.append(run_consumer(url, mode))

    assert [code for code, _ in runs] == [-signal.SIGKILL] * DELIVERIES_MAX + [0]
    assert [seen for _, seen in runs] == [
        [(0, 1), (1, 1), (POISON, 1)],
        [(POISON, 2)],
        [(POISON, 3)],
        [(3, 1), (4, 1)],
    ]
    with sl.open(url, mode="read") as log:
        (letter,) = log.read("__strandline.dead_letters.orders", 0, 0)
        assert letter.payload == POISON
        assert log.cursor("orders", "billing", 0) == 5


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_and_counts_only_rise(url: str) -> None:
    """S3: a consumer that handles one record at a time is counted exactly, or once too often."""
    seed = int.from_bytes(SystemClock().random_bytes(4), "big")
    chance = random.Random(seed)
    with sl.open(url) as log:
        log.append_many("orders", [sl.Event("order.created", POISON + n) for n in range(1, 200)])
        log.seek("orders", "billing", 0, POISON + 1)
    seen: dict[int, list[int]] = {}
    for lines in (*(chance.randrange(1, 20) for _ in range(4)), None):
        for offset, count in killed_after(lines, url):
            seen.setdefault(offset, []).append(count)

    assert sorted(seen) == list(range(POISON + 1, 204)), f"{seed=}"
    for counts in seen.values():
        assert counts == sorted(set(counts)), f"{seed=}"
        assert counts[0] <= 2, f"{seed=}"
    with sl.open(url, mode="read") as log:
        assert log.cursor("orders", "billing", 0) == 204
        assert "__strandline.dead_letters.orders" not in [t.name for t in log.topics(internal=True)]


def killed_after(lines: int | None, url: str) -> Iterator[tuple[int, int]]:
    """Yield what one process is given; kill it some time after so many, or let it end."""
    command = [sys.executable, "-m", "tests.subscriptions.poisoned_consumer", url, "consume", "99"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout, 1):
            offset, count = line.split()
            yield int(offset), int(count)
            if number == lines:
                process.kill()
    assert process.returncode == (0 if lines is None else -signal.SIGKILL)


def run_consumer(url: str, mode: str) -> tuple[int, list[tuple[int, ...]]]:
    """Return how one process ended, and what it was given: (offset, count)."""
    command = [sys.executable, "-m", "tests.subscriptions.poisoned_consumer"]
    done = subprocess.run(
        [*command, url, mode, str(DELIVERIES_MAX)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    seen = [tuple(int(word) for word in line.split()) for line in done.stdout.splitlines()]
    return done.returncode, seen
