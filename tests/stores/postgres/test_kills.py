"""Nothing that was acknowledged is lost or stored twice, whichever process is killed."""

import os
from collections.abc import Callable
from unittest import mock

import psycopg
import pytest

import strandline as sl
from strandline.log.history import Piece
from strandline.log.record_lists import StoredRecord
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


def stored_bytes(log: sl.Log) -> int:
    """Return what the records of a partition count."""
    pieces = [each for each in log.history("t", 0).pieces if isinstance(each, Piece)]
    entries = [entry for piece in pieces for entry in piece.entries]
    return sum(entry.size_bytes for entry in entries if isinstance(entry, StoredRecord))


def test_a_log_that_another_one_overtakes_places_its_appends_after_it(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    with sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t", proof=True)
        for log in (one, other, one, one, other, other, one):
            log.append("t", sl.Event("order", {}))
            log.append_many("t", [sl.Event("order", {})] * 3)

        assert [record.offset for record in one.read("t", 0, 0)] == list(range(28))
        assert all(report.is_sound for report in one.verify("t"))
        assert one.segments("t", 0)[0].size_bytes == stored_bytes(other)


def test_an_append_that_cannot_lock_in_time_is_handed_back_and_the_next_one_is_stored(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    schema = url.partition("schema=")[2]
    with sl.open(url, lock_timeout_s=0.2) as log:
        log.create_topic("t")
        log.append("t", sl.Event("order", {}))
        with psycopg.connect(server.url(), options=f"-c search_path={schema}") as connection:
            connection.execute("SELECT FROM partitions FOR UPDATE")
            with pytest.raises(sl.UnavailableError) as caught:
                log.append("t", sl.Event("order", {}))
            assert not isinstance(caught.value, sl.UnknownError)
            assert caught.value.write is not None
            connection.rollback()

        assert log.append("t", sl.Event("order", {})).offset == 1


def test_a_trim_beside_appends_keeps_marks_and_sizes(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic("t", value_kind="bytes")
        for number in range(1, 5):
            log.append_many("t", [bytes(100)] * 10)
            other.trim("t", 0, 10 * number - 5)

        assert (log.marks("t", 0).low, log.marks("t", 0).high) == (35, 40)
        assert log.segments("t", 0)[0].size_bytes == stored_bytes(log)
