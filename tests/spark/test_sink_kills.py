"""No row is lost and none is there twice, wherever a driver dies or a call fails."""

import os
from collections.abc import Iterator

import pytest

from strandline.values import UnavailableError
from tests.processes.fork_server import ForkServer
from tests.processes.sinks import FLAWS
from tests.processes.stores import SCHEMES
from tests.spark import sink_kills
from tests.spark.sink_kills import EIO, ENOSPC, WrongRowsError

#: Of the calls, one of so many here, and all of them in torture.
STRIDE = 19


@pytest.fixture
def first() -> int:
    """Return the first call of a sweep: another one each time, which a failure names."""
    return 1 + os.urandom(1)[0] % STRIDE


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    with ForkServer("sinks") as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_driver_is_killed_at_any_call(server: ForkServer, scheme: str, first: int) -> None:
    assert sink_kills.kill_each_call(server, scheme, first=first, stride=STRIDE) > 1


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_driver_is_killed_within_any_write(server: ForkServer, scheme: str) -> None:
    assert sink_kills.kill_each_call(server, scheme, stride=7, halfway=True)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_drivers_are_killed_one_after_the_other(server: ForkServer, scheme: str) -> None:
    sink_kills.run(server, scheme, seed=1, kills=5)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("error", [EIO, ENOSPC])
def test_any_call_fails(scheme: str, error: int, first: int) -> None:
    assert sink_kills.fail_each_call(scheme, error, first=first, stride=STRIDE)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_lost_checkpoint_is_reported_and_loses_nothing(scheme: str) -> None:
    sink_kills.lose_the_checkpoint(scheme)


# --- planted bugs ---

BY_KILLS = (
    "an append before the batch is recorded",
    "appends without an identity",
    "finished before it was begun",
)
BY_FAULTS = ("abort removes a recorded batch",)
#: In test_sink.py.
BY_STEPS = ("progress that is not stored", "a sweep removes what is named")
BY_CONTENT = ("a ledger without fingerprints",)


def test_every_planted_bug_is_looked_for() -> None:
    assert {*BY_KILLS, *BY_FAULTS, *BY_CONTENT, *BY_STEPS} == FLAWS.keys()


@pytest.mark.heavy
@pytest.mark.parametrize("flaw", BY_KILLS)
def test_kills_catch_a_planted_bug(server: ForkServer, flaw: str) -> None:
    with pytest.raises((WrongRowsError, AssertionError)):
        sink_kills.kill_each_call(server, "file", first=20, flaw=flaw)


@pytest.mark.slow
@pytest.mark.parametrize("flaw", BY_FAULTS)
def test_faults_catch_a_planted_bug(flaw: str) -> None:
    with pytest.raises((AssertionError, UnavailableError)):
        sink_kills.fail_each_call("file", EIO, flaw=flaw)


@pytest.mark.slow
@pytest.mark.parametrize("flaw", BY_CONTENT)
def test_other_content_catches_a_planted_bug(flaw: str) -> None:
    with pytest.raises(WrongRowsError):
        sink_kills.lose_the_checkpoint("file", flaw)
