"""Nothing that was acknowledged is lost or stored twice, whichever process is killed."""

import os
from collections.abc import Callable
from unittest import mock

import pytest

from strandline.stores.postgres import lane, partition_head
from tests.stores.kills import (
    append_from_two_logs,
    kill_server_under_writers,
    kill_writing_processes,
)
from tests.stores.postgres.server import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def mortal(server: PostgresServer) -> PostgresServer:
    """A server that may be killed; it is started again before another test needs it."""
    return server


def test_a_server_that_is_killed_loses_nothing_and_its_log_goes_on(mortal: PostgresServer) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    acknowledged = kill_server_under_writers(mortal, mortal.url(f"kills{seed}"), 4, seed)

    assert acknowledged > 0, seed


def test_a_process_that_is_killed_loses_nothing_and_readers_skip_nothing(
    new_url: Callable[[], str],
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    acknowledged = kill_writing_processes(new_url(), kills=3, seed=seed)

    assert acknowledged > 0, seed


def test_the_check_sees_an_append_that_does_not_lock_its_partition(
    new_url: Callable[[], str],
) -> None:
    unlocked = partition_head.LOCK.replace(" FOR NO KEY UPDATE", "")
    with (
        mock.patch.multiple(lane, LOCK=unlocked, LOCK_AT_ONCE=unlocked),
        pytest.raises(AssertionError),
    ):
        append_from_two_logs(new_url())


def test_two_logs_of_one_process_append_to_one_partition(new_url: Callable[[], str]) -> None:
    append_from_two_logs(new_url())
