"""Several logs that write to one partition of a PostgreSQL server, and wait for each other."""

from collections.abc import Callable

import psycopg
import pytest

import strandline as sl
from strandline.log.history import Piece
from strandline.log.stored_records import StoredRecord
from tests.stores.postgres.server import PostgresServer

pytestmark = pytest.mark.slow


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


def test_appends_of_one_and_of_many_store_what_is_missing_as_missing(
    new_url: Callable[[], str],
) -> None:
    with_all = sl.Event("order", {"n": 1}, key="k", headers={"a": "b"})
    without = sl.Event("order", {"n": 2})
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append("t", with_all)
        log.append("t", without)
        log.append_many("t", [without, with_all, without])
        log.append_many("t", [without, without])

        found = [(each.key, each.headers, each.payload["n"]) for each in log.read("t", 0, 0)]
        full, bare = ("k", {"a": "b"}, 1), (None, dict[str, str](), 2)
        assert found == [full, bare, bare, full, bare, bare, bare]


def test_a_session_that_is_new_prepares_what_it_stores_with(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append_many("t", [sl.Event("order", {})] * 2)
        log.append("t", sl.Event("order", {}))
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name LIKE 'strandline%'"
            )

        assert log.append("t", sl.Event("order", {})).offset == 3
        assert [each.offset for each in log.append_many("t", [sl.Event("order", {})] * 2)] == [4, 5]
