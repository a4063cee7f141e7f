"""A log behind pgbouncer in transaction mode, where each transaction has another session."""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest

import strandline as sl
from strandline.log import Log
from strandline.opening import examine
from strandline.stores.postgres import PostgresStore
from strandline.testing import FakeClock, conformance
from tests.stores.kills import append_from_two_logs, kill_writing_processes
from tests.stores.postgres.outbox_writers import plain, write_from_many
from tests.stores.postgres.pooler import SESSIONS, Pooler, running_pooler, why_no_pooler
from tests.stores.postgres.server import PostgresServer

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(why_no_pooler() is not None, reason=str(why_no_pooler())),
]

EVENT = sl.Event("order", {"n": 1})
_NUMBERS = itertools.count()
_NOTE_SETTINGS = """
    CREATE TABLE seen (setting text);
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format(
            'INSERT INTO %I.seen VALUES (current_setting(%L))',
            TG_TABLE_SCHEMA, 'synchronous_commit'
        );
        RETURN NEW;
    END $$;
    CREATE TRIGGER see BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER see BEFORE INSERT ON keyed FOR EACH ROW EXECUTE FUNCTION see();
"""


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[Pooler]:
    with running_pooler(server) as found:
        yield found


@pytest.fixture
def pooled_url(pooler: Pooler) -> Callable[[], str]:
    """Return the URL of a log that is not there yet, each time."""
    return lambda: pooler.url(f"p{os.getpid()}_{next(_NUMBERS)}")


def direct(url: str, pooler: Pooler, server: PostgresServer) -> str:
    """Return the URL of the same log without the pooler."""
    return url.replace(plain(pooler.url()), plain(server.url()))


def run_in_schema(server: PostgresServer, url: str, statements: LiteralString) -> list[Any]:
    """Execute statements in the database of a log, and return their results."""
    schema = url.partition("schema=")[2]
    with psycopg.connect(server.url(), options=f"-c search_path={schema}") as connection:
        found = connection.execute(statements)
        return found.fetchall() if found.description else []


@pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
def test_rule(rule: conformance.Rule, pooled_url: Callable[[], str]) -> None:
    with contextlib.ExitStack() as opened:

        def open_one(*, clock: FakeClock | None = None, **options: Any) -> Log:
            store = PostgresStore(pooled_url(), clock=clock)
            return opened.enter_context(Log(store, clock=clock, **options))

        rule(open_one)


def test_more_threads_than_sessions_append_and_nothing_is_lost(
    pooled_url: Callable[[], str],
) -> None:
    append_from_two_logs(pooled_url())


def test_statements_that_are_repeated_are_not_prepared(pooled_url: Callable[[], str]) -> None:
    with sl.open(pooled_url()) as log:
        log.create_topic("t")
        threads = [
            threading.Thread(target=lambda: [log.append("t", EVENT) for _ in range(20)])
            for _ in range(2 * SESSIONS)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

        assert len(list(log.read("t", 0, 0))) == 40 * SESSIONS


def test_an_append_is_committed_durably_whatever_the_database_has_set(
    pooled_url: Callable[[], str], server: PostgresServer, pooler: Pooler
) -> None:
    url = pooled_url()
    with sl.open(url) as log:
        log.create_topic("t")
        run_in_schema(server, url, _NOTE_SETTINGS)
        with careless_sessions(pooler):
            log.append("t", EVENT)
            log.append_many("t", [EVENT] * 50)
            log.register("t", "billing", {0: 1})

        seen = run_in_schema(server, url, "SELECT DISTINCT setting FROM seen")

    assert seen == [("on",)]


@contextlib.contextmanager
def careless_sessions(pooler: Pooler) -> Iterator[None]:
    """Have another client leave a setting in every session that the pooler has."""

    def set_everywhere(value: str) -> None:
        with contextlib.ExitStack() as opened:
            for _ in range(SESSIONS):
                each = opened.enter_context(psycopg.connect(pooler.url()))
                each.execute("SELECT set_config('synchronous_commit', %s, false)", (value,))

    set_everywhere("off")
    try:
        yield
    finally:
        set_everywhere("on")


def test_nothing_is_left_in_the_sessions_of_others(
    pooled_url: Callable[[], str], pooler: Pooler, server: PostgresServer
) -> None:
    with sl.open(pooled_url(), lock_timeout_s=123.0) as log:
        log.create_topic("t")
        log.append("t", EVENT)
        with log.subscribe("t", start=sl.EARLIEST) as subscription:
            assert subscription.next(timeout_s=60.0) is not None
        with log.consumer("t", "billing", partitions=[0]):
            pass
        with contextlib.ExitStack() as opened:
            found = [
                opened.enter_context(psycopg.connect(pooler.url(), prepare_threshold=None))
                .execute(
                    "SELECT current_setting('lock_timeout'),"
                    " (SELECT count(*) FROM pg_prepared_statements),"
                    " (SELECT count(*) FROM pg_listening_channels()),"
                    " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                    "  AND pid = pg_backend_pid())"
                )
                .fetchone()
                for _ in range(SESSIONS)
            ]

    assert set(found) == {("0", 0, 0, 0)}


def test_readers_and_writers_see_each_other_with_and_without_the_pooler(
    pooled_url: Callable[[], str], pooler: Pooler, server: PostgresServer
) -> None:
    url = pooled_url()
    with sl.open(url) as pooled, sl.open(direct(url, pooler, server)) as straight:
        pooled.create_topic("t")
        with pooled.subscribe("t") as here, straight.subscribe("t") as there:
            for number, log in enumerate((pooled, straight) * 4):
                log.append("t", sl.Event("order", {"n": number}))
                for subscription in (here, there):
                    record = subscription.next(timeout_s=60.0)
                    assert record is not None
                    assert record.offset == number


def test_a_claim_holds_with_and_without_the_pooler_and_ends_when_it_is_released(
    pooled_url: Callable[[], str], pooler: Pooler, server: PostgresServer
) -> None:
    url = pooled_url()
    with sl.open(url) as pooled, sl.open(direct(url, pooler, server)) as straight:
        pooled.create_topic("t", partitions=2)
        for first, second in ((pooled, straight), (straight, pooled)):
            with first.consumer("t", "billing", partitions=[0]):
                for _ in range(2 * SESSIONS):
                    pooled.append("t", EVENT, partition=0)
                    with pytest.raises(sl.UnavailableError) as caught:
                        second.consumer("t", "billing", partitions=[0])
                    assert caught.value.fields["pid"] == os.getpid()
                with second.consumer("t", "billing", partitions=[1]):
                    pass


def test_processes_behind_a_pooler_that_are_killed_lose_nothing(
    pooled_url: Callable[[], str],
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    assert kill_writing_processes(pooled_url(), kills=2, seed=seed) > 0, seed


def test_rows_and_events_of_blocks_behind_a_pooler_are_the_same(
    pooled_url: Callable[[], str],
) -> None:
    assert write_from_many(pooled_url(), SESSIONS, 50, 1) > 0


def test_a_pooled_writer_begins_the_epoch_of_a_restored_server(
    pooled_url: Callable[[], str], server: PostgresServer
) -> None:
    url = pooled_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT)
        run_in_schema(server, url, "UPDATE partitions SET timeline = 'another/1'")

        log.append("t", EVENT)

        assert [epoch.start for epoch in log.epochs("t", 0)] == [0, 1]


def test_doctor_says_that_there_is_a_pooler(pooler: Pooler, server: PostgresServer) -> None:
    found = {each.check: each for each in examine(pooler.url())}
    straight = {each.check: each for each in examine(server.url())}

    assert "poll" in found["pooler"].found
    assert {each.verdict for each in found.values()} <= {"ok", "warning"}
    assert "pooler" not in straight
