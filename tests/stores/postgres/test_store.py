"""What a user of a log in PostgreSQL sees beyond the rules of every log."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import psycopg
import pytest
from psycopg import sql

import strandline as sl
from strandline.opening import examine
from strandline.stores.postgres import removing, watching
from strandline.stores.postgres.database import lock_number
from strandline.values import Offset
from tests.stores.doctor import doctor_checks
from tests.stores.engine_server import NoServerError
from tests.stores.postgres.outbox_writers import plain
from tests.stores.postgres.server import PostgresServer

PROJECT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow

EVENT = sl.Event("order", {"n": 1})


def test_a_log_is_found_again_in_its_schema(new_url: Callable[[], str]) -> None:
    url, other = new_url(), new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT, durability="durable")

    with sl.open(url) as again, sl.open(other) as elsewhere:
        assert [record.payload for record in again.read("t", 0, 0)] == [{"n": 1}]
        assert elsewhere.topics() == []


def test_a_hint_comes_from_another_process_without_polling(new_url: Callable[[], str]) -> None:
    url = new_url()
    with (
        mock.patch.object(watching, "_POLL_S", 1e6),
        sl.open(url) as log,
        sl.open(url) as reader,
    ):
        log.create_topic("t")
        with reader.subscribe("t") as subscription:
            for number in range(20):
                log.append("t", sl.Event("order", {"n": number}))
                record = subscription.next(timeout_s=60.0)
                assert record is not None
                assert record.offset == number


def test_a_reader_continues_when_its_connection_breaks(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as reader:
        log.create_topic("t")
        with reader.subscribe("t") as subscription:
            for number in range(3):
                log.append("t", EVENT)
                record = subscription.next(timeout_s=60.0)
                assert record is not None
                assert record.offset == number
                _end_all_connections(server)


def test_an_append_continues_when_its_connection_broke_while_idle(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("t")
        for number in range(3):
            assert log.append("t", EVENT).offset == number
            _end_all_connections(server)


def _end_all_connections(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        # Waits for each of them to end.
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE application_name LIKE 'strandline %'"
        )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://lab:secret@/nothing?host={folder}", "nothing"),
        ("postgresql://bob:secret@/postgres?host={folder}", "bob"),
    ],
)
def test_a_refused_connection_says_why_and_shows_no_secret(
    server: PostgresServer, url: str, says: str
) -> None:
    with pytest.raises(sl.InvalidError) as caught:
        sl.open(url.format(folder=server.folder))

    assert says in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(caught.value.__cause__)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(sl.UnavailableError, match="check that it runs"):
        sl.open("postgresql://lab@127.0.0.1:1/postgres", connect_timeout_s=2.0)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://app:secret@host/db",
        "Postgresql://app:secret@host/db",
        "postgresql://app:secret/x@/db",
        "postgresql://app:secret@[::bad/db",
    ],
)
def test_a_url_that_is_refused_is_shown_without_its_secret(url: str) -> None:
    with pytest.raises(sl.InvalidError) as caught:
        sl.open(url, connect_timeout_s=2.0)

    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.fields)


@pytest.mark.parametrize("start", ["postgresql:///postgres?", "postgresql://?dbname=postgres&"])
def test_urls_that_libpq_takes_are_taken(server: PostgresServer, start: str) -> None:
    with sl.open(f"{start}host={server.folder}&user=lab&schema=libpq") as log:
        assert log.topics() == []


def test_a_topic_that_was_dropped_and_created_again_is_found(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t")
        other.append("t", EVENT)
        one.drop_topic("t")
        with pytest.raises(sl.InvalidError, match=r"no such topic|dropped"):
            other.append("t", EVENT)

        one.create_topic("t")

        assert other.append("t", EVENT).offset == 0


def test_a_user_who_may_only_read_is_refused_an_append(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    schema = url.partition("schema=")[2]
    with sl.open(url) as log:
        log.create_topic("t")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(f"{schema}_reader")))
        for statement in (
            "ALTER ROLE {role} LOGIN",
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
        ):
            names = {"role": sql.Identifier(f"{schema}_reader"), "schema": sql.Identifier(schema)}
            connection.execute(sql.SQL(statement).format(**names))

    with sl.open(url.replace("lab@", f"{schema}_reader@")) as log:
        assert list(log.read("t", 0, 0)) == []
        for _ in range(2):
            with pytest.raises(sl.InvalidError, match="rights"):
                log.append("t", EVENT)


def test_a_writer_that_stays_open_begins_the_epoch_of_a_restored_server(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT)
        table = sql.Identifier(url.partition("schema=")[2], "partitions")
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("UPDATE {} SET timeline = 'another/1'").format(table))

        assert log.append("t", EVENT).offset == 1
        assert [epoch.start for epoch in log.epochs("t", 0)] == [0, 1]


def test_a_trim_during_a_look_at_segments_is_no_damage(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic("t")
        log.append("t", EVENT)
        end = threading.Event()

        def trim() -> None:
            while not end.is_set():
                log.append_many("t", [EVENT] * 5)
                log.trim("t", 0, log.marks("t", 0).high - 1)

        thread = threading.Thread(target=trim)
        thread.start()
        try:
            for _ in range(100):
                other.segments("t", 0)
        finally:
            end.set()
            thread.join()


def test_a_log_shows_no_secret(server: PostgresServer) -> None:
    url = f"postgresql://lab:secret@/postgres?host={server.folder}&schema=shown"
    with sl.open(url) as log:
        assert "secret" not in repr(log)
        assert "secret" not in repr(log.describe())
        assert "schema=shown" in repr(log)


def test_reading_needs_a_log(new_url: Callable[[], str]) -> None:
    with pytest.raises(sl.InvalidError, match="there is no log here"):
        sl.open(new_url(), mode="read")


@pytest.mark.parametrize("schema", ["", "A", "a-b", 'a"b', "1a", "a" * 41, "pg_foo"])
def test_a_schema_with_another_name_is_refused(server: PostgresServer, schema: str) -> None:
    with pytest.raises(sl.InvalidError, match="schema"):
        sl.open(server.url(), schema=schema)


def test_a_schema_is_named_once_and_may_be_any_word(server: PostgresServer) -> None:
    with sl.open(server.url("select")) as log:
        assert log.topics() == []
    with pytest.raises(sl.InvalidError, match="name it once"):
        sl.open(server.url("one"), schema="two")


def test_many_processes_may_create_the_log_at_once(new_url: Callable[[], str]) -> None:
    url = new_url()
    logs: list[sl.Log] = []
    threads = [threading.Thread(target=lambda: logs.append(sl.open(url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({log.id for log in logs}) == 1
    assert len(logs) == len(threads)
    for log in logs:
        log.close()


def test_keys_and_kinds_with_any_character_come_back(new_url: Callable[[], str]) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append("t", EVENT, key="a\0b\n\u2028")
        (record,) = log.read("t", 0, 0)

    assert record.key == "a\0b\n\u2028"


@pytest.mark.parametrize("count", [1, 7, 8, 5000])
def test_batches_of_any_size_are_read_as_they_were_written(
    new_url: Callable[[], str], count: int
) -> None:
    events = [sl.Event("order", {"n": n}, key=str(n), headers={"h": "1"}) for n in range(count)]
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append_many("t", events)

        assert [record.value for record in log.read("t", 0, 0)] == events
        batches = list(log.read_batches("t", 0, 0))
        assert sum(batch.num_rows for batch in batches) == count


def test_a_server_restored_from_a_copy_begins_an_epoch(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT)
    table = sql.Identifier(url.partition("schema=")[2], "partitions")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("UPDATE {} SET timeline = 'another/1'").format(table))

    with sl.open(url) as log:
        assert log.append("t", EVENT).offset == 1
        assert [epoch.start for epoch in log.epochs("t", 0)] == [0, 1]


@pytest.mark.heavy
def test_records_that_are_trimmed_as_they_are_written_make_no_table_grow(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    table = f"{url.partition('schema=')[2]}.records"
    with mock.patch.object(removing, "_DEAD_ROWS", 2_000), sl.open(url) as log:
        log.create_topic("t", value_kind="bytes")

        def write_and_trim(rounds: int) -> int:
            for _ in range(rounds):
                log.append_many("t", [bytes(300)] * 1_000)
                log.trim("t", 0, max(0, log.marks("t", 0).high - 1_000))
            with psycopg.connect(server.url()) as connection:
                row = connection.execute("SELECT pg_table_size(%s)", (table,)).fetchone()
                assert row is not None
                return int(row[0])

        early = write_and_trim(10)
        late = write_and_trim(20)

    assert late <= 1.5 * early


@pytest.fixture
def careless_server() -> Iterator[PostgresServer]:
    try:
        found = PostgresServer(fsync="off")
    except NoServerError as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")
    yield found
    found.close()


@pytest.mark.heavy
def test_next_ends_in_its_time_while_the_server_is_down() -> None:
    # Without the limit of `next`, the log would wait for the server for an hour.
    with (
        contextlib.closing(_own_server()) as mortal,
        sl.open(mortal.url(), connect_timeout_s=3600.0) as log,
    ):
        log.create_topic("t")
        with log.subscribe("t", start=sl.EARLIEST) as subscription:
            assert subscription.next(timeout_s=0.0) is None
            mortal.kill()
            while subscription.assignment.fault(0) is None:
                assert subscription.next(timeout_s=0.1) is None


def test_doctor_shows_what_a_server_has_and_how_durable_it_is(
    server: PostgresServer, new_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    doctor = partial(doctor_checks, capsys)
    url = new_url()
    found = doctor(url)
    assert found["durability"][:2] == ("ok", "durable: fsync=on, full_page_writes=on")
    assert found["version"][0] == found["encoding"][0] == "ok"
    assert "none yet" in found["log"][1]
    with sl.open(url):
        assert doctor(url)["log"][1].startswith("in the schema")

    refused = doctor(server.url(database="missing"))
    assert refused["server"][0] == "failed"
    assert "missing" in refused["server"][2]


def _own_server() -> PostgresServer:
    try:
        return PostgresServer()
    except NoServerError as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")


def test_a_server_without_fsync_promises_nothing_durable(careless_server: PostgresServer) -> None:
    with sl.open(careless_server.url()) as log:
        log.create_topic("t")

        with pytest.raises(sl.InvalidError):
            log.append("t", EVENT, durability="durable")

        assert log.append("t", EVENT).level is sl.Durability.WRITTEN
        assert "fsync=off" in log.describe().durability_reason
    durability = {each.check: each for each in examine(careless_server.url())}["durability"]
    assert (durability.verdict, durability.found[:7]) == ("warning", "written")


def test_the_page_about_postgresql_works_as_written(
    new_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    page = (PROJECT / "docs/howto/run-on-postgresql.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```py\n(.*?)```", page, re.DOTALL))
    url = new_url()
    code = code.replace('connect("postgresql://app@db.example/events")', f'connect("{plain(url)}")')

    exec(code.replace("postgresql://app@db.example/events", url), {})  # noqa: S102 - Ours.

    assert capsys.readouterr().out == (
        "appended at offset 0\nplaced {'total': 12}\ncommitted at offset 0\n"
    )


def test_a_notification_says_where_a_partition_ends(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    schema = url.rpartition("schema=")[2]
    with sl.open(url) as log, contextlib.closing(log.watch()) as watch:
        watch.add(log.create_topic("t"), 0, Offset(0))
        with psycopg.connect(server.url(), autocommit=True) as other:
            found = other.execute(
                sql.SQL("SELECT slot FROM {}.partitions").format(sql.Identifier(schema))
            ).fetchone()
            assert found is not None
            # More than there is: the end is taken from it, and costs a reader a look.
            other.execute("SELECT pg_notify(%s, %s)", (f"{schema}_news", f"{found[0]}:7"))

        while not any(hint.end == 7 for hint in watch.wait(30)):
            pass
        assert list(log.read("t", 0, 0)) == []


@pytest.mark.parametrize(
    "payload", ["", "7", ",", "{slot}", "{slot}:", "x:y", "{slot}:-3", "{slot}:1:2", "9" * 40]
)
def test_a_notification_of_another_version_is_a_reason_to_look(
    new_url: Callable[[], str], server: PostgresServer, payload: str
) -> None:
    url = new_url()
    schema = url.rpartition("schema=")[2]
    with (
        mock.patch.object(watching, "_POLL_S", 1e6),
        sl.open(url) as log,
        sl.open(url) as reader,
        psycopg.connect(server.url(), autocommit=True) as other,
    ):
        log.create_topic("t")
        slots = sql.SQL("SELECT slot FROM {}.partitions").format(sql.Identifier(schema))
        (slot,) = other.execute(slots).fetchone() or (None,)
        with reader.subscribe("t") as subscription:
            for number in range(3):
                other.execute(
                    "SELECT pg_notify(%s, %s)", (f"{schema}_news", payload.format(slot=slot))
                )
                log.append("t", EVENT)
                record = subscription.next(timeout_s=60.0)
                assert record is not None
                assert record.offset == number


def test_an_append_notifies_only_where_a_session_listens(
    new_url: Callable[[], str], server: PostgresServer
) -> None:
    url = new_url()
    schema = url.rpartition("schema=")[2]
    with sl.open(url) as log, psycopg.connect(server.url(), autocommit=True) as session:
        log.create_topic("t")
        session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(f"{schema}_news")))
        # The first append of a process locks the partition, and always notifies.
        log.append("t", EVENT)
        first = [note.payload for note in session.notifies(timeout=60, stop_after=1)]
        log.append("t", EVENT)
        session.execute("SELECT pg_advisory_lock_shared(%s)", (lock_number("listening", schema),))
        log.append("t", EVENT)
        heard = [note.payload for note in session.notifies(timeout=60, stop_after=1)]

    assert [each.partition(":")[2] for each in first + heard] == ["1", "3"]


@pytest.mark.parametrize("done", ["DEALLOCATE ALL", "PREPARE strandline_one AS SELECT 1"])
def test_appends_continue_whatever_is_prepared_in_a_session(
    new_url: Callable[[], str], done: str
) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("orders")
        if done.startswith("DEALLOCATE"):
            for _ in range(3):
                log.append("orders", sl.Event("order", {}))
        with log.transaction() as connection:
            connection.execute(done)

        for _ in range(3):
            log.append("orders", sl.Event("order", {"n": 1}))

        assert [each.payload for each in log.read("orders", 0, 0)][-3:] == [{"n": 1}] * 3
