"""Triggers whose processes are killed: nothing is lost, passed over, reordered or forgotten."""

import signal
from pathlib import Path

import pytest

from tests.processes import poison_kills, trigger_kills
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES, url_in

#: Many more are in torture.
LOGS = 1


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_at_any_moment_a_trigger_keeps_its_guarantees(
    server: ForkServer, scheme: str, seed: int
) -> None:
    """E26, E28: at least once, in order per key, one dead letter, ids once after restarts."""
    killed = sum(trigger_kills.run(server, scheme, seed + number) for number in range(LOGS))

    assert killed == LOGS * trigger_kills.KILLS_PER_LOG


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_signal_lets_functions_end_and_loses_no_ack(
    server: ForkServer, scheme: str, seed: int, number: int, tmp_path: Path
) -> None:
    trigger_kills.stop_by_signal(server, scheme, tmp_path, seed, number)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_redriving_that_is_killed_and_repeated_redrives_each_record_once(
    server: ForkServer, scheme: str, tmp_path: Path
) -> None:
    trigger_kills.kill_redriving(server, url_in(scheme, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", poison_kills.CONCURRENCIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_record_that_kills_its_process_is_dead_lettered_and_its_neighbours_are_not(
    server: ForkServer, scheme: str, concurrency: int
) -> None:
    poison_kills.run(server, scheme, concurrency, by="handle")


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", poison_kills.CONCURRENCIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_consumer_that_takes_many_dead_letters_only_the_record_that_kills_it(
    server: ForkServer, scheme: str, concurrency: int
) -> None:
    poison_kills.run(server, scheme, concurrency, by="consume")
