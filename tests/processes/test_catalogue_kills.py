"""Processes that tier, sweep and try to shorten the catalogue are killed: no record is lost."""

from collections.abc import Iterator

import pytest

from tests.processes import catalogue_kills
from tests.processes.fork_server import ForkServer
from tests.processes.stores import SCHEMES


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    with ForkServer("tiering_processes") as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_at_any_moment_tiering_keeps_every_record_readable(
    server: ForkServer, scheme: str, seed: int
) -> None:
    assert catalogue_kills.run(server, scheme, seed) == catalogue_kills.KILLS_PER_LOG


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("scheme", "without"),
    [("file", ["refusal"]), ("sqlite", ["refusal", "beginning", "only copy"])],
)
def test_without_a_check_the_loss_is_found(
    server: ForkServer, scheme: str, without: list[str]
) -> None:
    def lose() -> None:
        for seed in range(10):
            catalogue_kills.run(server, scheme, seed, without=without)

    with pytest.raises(AssertionError):
        lose()
