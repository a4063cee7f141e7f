"""The caller's rows and its events in one transaction of a PostgreSQL log."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import strandline as sl
from strandline.stores.postgres import outbox, partition_head
from strandline.stores.postgres.outbox import PostgresOutbox
from tests.planting import Bug
from tests.stores.postgres.outbox_writers import (
    ChangedMindError,
    kill_block_processes,
    write_from_many,
)
from tests.stores.postgres.server import PostgresServer
from tests.stores.postgres.shops import SHOPS, DjangoShop, PsycopgShop, SessionShop, Shop, engine_of

pytestmark = pytest.mark.slow

CREATED = sl.Event("order.created", {"id": 1})


@pytest.fixture
def log(new_url: Callable[[], str], server: PostgresServer) -> Iterator[sl.Log]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders CASCADE")
        connection.execute("CREATE TABLE orders (name text PRIMARY KEY)")
    with sl.open(new_url(), lock_timeout_s=5.0) as log:
        log.create_topic("orders")
        yield log


@pytest.fixture
def connection(server: PostgresServer) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(server.url()) as connection:
        yield connection


@pytest.fixture(params=SHOPS, ids=lambda each: each.__name__)
def shop(request: pytest.FixtureRequest, server: PostgresServer) -> Shop:
    made: Shop = request.param(server)
    return made


def rows(server: PostgresServer) -> list[str]:
    with psycopg.connect(server.url()) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM orders ORDER BY name")]


def kinds(log: sl.Log) -> list[str]:
    return [record.kind for record in log.read("orders", 0, 0)]


@contextlib.contextmanager
def failing(
    error: type[Exception] | tuple[type[Exception], ...], match: str | None = None
) -> Iterator[None]:
    """Expect that the block raises, at the latest when it is left."""
    with pytest.raises(error, match=match):
        yield


# --- together, in each way ---


def test_rows_and_events_are_there_together_when_the_block_is_left(
    shop: Shop, log: sl.Log, server: PostgresServer
) -> None:
    with shop.passed() as passed, log.transaction(passed) as given:
        shop.add(given, "new")
        receipt = log.append("orders", CREATED)
        several = log.append_many("orders", [sl.Event(f"k{n}", {}) for n in range(10)])
        inside = rows(server), kinds(log), receipt.is_settled, receipt.level
        with pytest.raises(sl.UnavailableError, match="leave it"):
            _ = receipt.offset
        with pytest.raises(sl.InvalidError, match="after that"):
            receipt.wait()

    assert inside == ([], [], False, None)
    assert [receipt.offset, *(each.offset for each in several)] == list(range(11))
    assert receipt.level is sl.Durability.DURABLE
    assert receipt.wait("durable").offset == 0
    assert rows(server) == ["new"]
    assert kinds(log) == ["order.created", *(f"k{n}" for n in range(10))]


def test_a_block_that_raises_leaves_nothing_of_either(
    shop: Shop, log: sl.Log, server: PostgresServer
) -> None:
    with shop.passed() as passed:
        with contextlib.suppress(ChangedMindError), log.transaction(passed) as given:
            shop.add(given, "new")
            receipt = log.append("orders", CREATED)
            raise ChangedMindError

        assert (rows(server), kinds(log)) == ([], [])
        with pytest.raises(sl.InvalidError, match="nothing of it is stored") as caught:
            _ = receipt.offset
        assert isinstance(caught.value.__cause__, ChangedMindError)
        assert (receipt.is_settled, receipt.level) == (True, None)

        with log.transaction(passed) as given:
            shop.add(given, "again")
            again = log.append("orders", CREATED)
    assert (again.offset, rows(server)) == (0, ["again"])


def test_a_savepoint_takes_back_its_events_with_its_rows(
    shop: Shop, log: sl.Log, server: PostgresServer
) -> None:
    with shop.passed() as passed, log.transaction(passed) as given:
        with contextlib.suppress(ChangedMindError), shop.savepoint(given):
            undone = log.append("orders", sl.Event("undone", {}))
            shop.add(given, "undone")
            raise ChangedMindError
        with shop.savepoint(given):
            shop.add(given, "kept")
            kept = log.append("orders", sl.Event("kept", {}))
        last = log.append("orders", sl.Event("last", {}))

    assert (kept.offset, last.offset) == (0, 1)
    assert (rows(server), kinds(log)) == (["kept"], ["kept", "last"])
    with pytest.raises(sl.InvalidError, match="to a savepoint"):
        _ = undone.offset


# --- beside other writers ---


def test_no_other_writer_waits_while_a_block_is_open(
    log: sl.Log, connection: "psycopg.Connection[Any]"
) -> None:
    with log.transaction(connection):
        first = log.append("orders", sl.Event("block", {}))
        done: list[int] = []
        other = threading.Thread(
            target=lambda: done.append(log.append("orders", sl.Event("plain", {})).offset)
        )
        other.start()
        other.join(60)

    assert (done, first.offset) == ([0], 1)
    assert kinds(log) == ["plain", "block"]


def test_writers_with_delays_and_aborts_leave_rows_and_events_alike(
    new_url: Callable[[], str],
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    assert write_from_many(new_url(), writers=6, rows=60, seed=seed) > 0, seed


BUGS = [
    Bug(
        "offsets are assigned without a lock",
        PostgresOutbox,
        "_place_in",
        "lock_partition(...)",
        "load_partition(connection, database, first.slot)",
    ),
    Bug("a savepoint takes nothing back", PostgresOutbox, "_place", "each.number not in held", "0"),
]


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_the_check_of_writers_sees_a_planted_bug(
    bug: Bug, new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "load_partition", partition_head.load_partition, raising=False)
    with bug.planted(), pytest.raises((AssertionError, sl.StrandlineError)):
        write_from_many(new_url(), writers=6, rows=60, seed=int.from_bytes(os.urandom(4), "big"))


def test_a_process_that_is_killed_leaves_rows_and_events_alike(new_url: Callable[[], str]) -> None:
    assert kill_block_processes(new_url(), kills=2, seed=int.from_bytes(os.urandom(4), "big")) > 0


# --- what may go wrong ---


def test_a_commit_by_another_way_than_leaving_the_block_commits_nothing(
    log: sl.Log, server: PostgresServer, connection: "psycopg.Connection[Any]"
) -> None:
    with failing(psycopg.Error, match="no offset yet"), log.transaction(connection):
        connection.execute("INSERT INTO orders VALUES ('new')")
        log.append("orders", CREATED)
        connection.execute("COMMIT")

    assert (rows(server), kinds(log)) == ([], [])


def test_a_session_that_commits_inside_the_block_commits_nothing(
    log: sl.Log, server: PostgresServer
) -> None:
    shop = SessionShop(server)
    with shop.passed() as session:
        with (
            failing(sqlalchemy.exc.DBAPIError, match="no offset yet"),
            log.transaction(session),
        ):
            shop.add(session, "new")
            receipt = log.append("orders", CREATED)
            session.commit()

        with pytest.raises(sl.InvalidError):
            _ = receipt.offset
    assert (rows(server), kinds(log)) == ([], [])


def test_a_rollback_inside_the_block_is_an_error(
    log: sl.Log, connection: "psycopg.Connection[Any]", server: PostgresServer
) -> None:
    with failing(sl.InvalidError, match="ended inside its block"), log.transaction(connection):
        log.append("orders", CREATED)
        connection.execute("ROLLBACK")

    with (
        Session(engine_of(server)) as session,
        failing(sl.InvalidError, match="ended inside its block"),
        log.transaction(session),
    ):
        session.rollback()
    assert kinds(log) == []


def test_a_statement_that_failed_fails_the_block_and_not_silently(
    shop: Shop, log: sl.Log, server: PostgresServer
) -> None:
    with (
        shop.passed() as passed,
        failing(Exception),
        log.transaction(passed) as given,
    ):
        log.append("orders", CREATED)
        with contextlib.suppress(Exception):
            shop.add(given, "twice")
            shop.add(given, "twice")
            if hasattr(given, "flush"):
                given.flush()

    assert (rows(server), kinds(log)) == ([], [])


def test_a_deferred_constraint_of_the_caller_fails_the_block(
    log: sl.Log, connection: "psycopg.Connection[Any]", server: PostgresServer
) -> None:
    connection.execute("DROP TABLE IF EXISTS lines")
    connection.execute(
        "CREATE TABLE lines (name text REFERENCES orders DEFERRABLE INITIALLY DEFERRED)"
    )
    connection.commit()

    with failing(psycopg.errors.ForeignKeyViolation), log.transaction(connection):
        connection.execute("INSERT INTO lines VALUES ('missing')")
        receipt = log.append("orders", CREATED)

    connection.execute("DROP TABLE lines")
    connection.commit()
    assert kinds(log) == []
    with pytest.raises(sl.InvalidError):
        _ = receipt.offset


def test_a_conflict_is_raised_when_the_block_is_left_and_nothing_is_stored(
    log: sl.Log, server: PostgresServer, connection: "psycopg.Connection[Any]"
) -> None:
    log.append("orders", CREATED, idempotency_key="once")

    with failing(sl.ConflictError), log.transaction(connection):
        connection.execute("INSERT INTO orders VALUES ('new')")
        log.append("orders", CREATED, expected_offset=0)

    with log.transaction(connection):
        repeat = log.append("orders", CREATED, idempotency_key="once")
        fresh = log.append("orders", CREATED, expected_offset=1)
    assert (repeat.is_repeat, repeat.offset, fresh.offset) == (True, 0, 1)
    assert rows(server) == []


def test_a_lock_that_is_not_had_in_time_is_unavailable_and_nothing_is_stored(
    new_url: Callable[[], str], connection: "psycopg.Connection[Any]", server: PostgresServer
) -> None:
    url = new_url()
    with sl.open(url, lock_timeout_s=0.2) as log, psycopg.connect(server.url()) as holder:
        log.create_topic("orders")
        schema = url.rpartition("=")[2]
        holder.execute(f"SELECT 1 FROM {schema}.partitions FOR UPDATE")  # noqa: S608 - Ours.

        with failing(sl.UnavailableError), log.transaction(connection):
            log.append("orders", CREATED)

        holder.rollback()
        assert kinds(log) == []


def test_what_is_no_connection_to_the_log_is_refused(
    log: sl.Log, connection: "psycopg.Connection[Any]", server: PostgresServer
) -> None:
    def refused(match: str, passed: Any) -> None:
        with failing(sl.InvalidError, match=match), log.transaction(passed):
            raise AssertionError("the block was entered")

    refused("pass a blocking psycopg", "postgresql://…")
    connection.execute("SELECT 1")
    refused("inside a transaction already", connection)
    connection.rollback()
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    refused("READ COMMITTED", connection)
    connection.isolation_level = None
    connection.read_only = True
    refused("read-only", connection)
    connection.close()
    refused("closed", connection)
    with psycopg.connect(server.url(database="template1")) as elsewhere:
        refused("no log in it", elsewhere)
    with Session(engine_of(server)) as session:
        session.execute(sqlalchemy.text("SELECT 1"))
        refused("inside a transaction already", session)
    shop = DjangoShop(server)
    with shop.passed() as given, shop.savepoint(given):
        refused("outermost", given)


def test_other_changes_of_the_log_are_refused_inside_a_block(
    log: sl.Log, connection: "psycopg.Connection[Any]"
) -> None:
    log.append("orders", CREATED)
    with log.transaction(connection):
        log.append("orders", CREATED)
        for call in (
            lambda: log.create_topic("other"),
            lambda: log.drop_topic("orders"),
            lambda: log.trim("orders", 0, 1, force=True),
            lambda: log.register("orders", "billing", {0: 0}),
            lambda: log.transaction(connection).__enter__(),
        ):
            with pytest.raises(sl.InvalidError, match="transaction"):
                call()

    assert kinds(log) == ["order.created"] * 2


def test_a_topic_that_is_dropped_while_a_block_is_open_fails_the_block(
    log: sl.Log, connection: "psycopg.Connection[Any]"
) -> None:
    with failing(sl.InvalidError, match="dropped"), log.transaction(connection):
        log.append("orders", CREATED)
        dropping = threading.Thread(target=log.drop_topic, args=("orders",))
        dropping.start()
        dropping.join(60)


def test_a_callback_of_django_that_raises_after_the_commit_leaves_a_committed_receipt(
    log: sl.Log, server: PostgresServer
) -> None:
    shop = DjangoShop(server)
    from django.db import transaction  # noqa: PLC0415 - Once it is configured.

    def fail() -> None:
        raise ChangedMindError

    with shop.passed() as given:
        with failing(ChangedMindError), log.transaction(given):
            shop.add(given, "new")
            receipt = log.append("orders", CREATED)
            transaction.on_commit(fail)

        assert receipt.offset == 0
    assert (rows(server), kinds(log)) == (["new"], ["order.created"])


def test_a_connection_that_breaks_before_the_commit_leaves_nothing(
    log: sl.Log, server: PostgresServer
) -> None:
    shop = PsycopgShop(server)
    receipts = []
    with (
        contextlib.suppress(psycopg.Error),
        shop.passed() as given,
        failing((psycopg.Error, sl.StrandlineError)),
        log.transaction(given),
        psycopg.connect(server.url(), autocommit=True) as other,
    ):
        receipts.append(log.append("orders", CREATED))
        other.execute("SELECT pg_terminate_backend(%s)", (given.info.backend_pid,))

    with pytest.raises(sl.InvalidError, match="nothing of it is stored"):
        _ = receipts[0].offset
    assert kinds(log) == []


# --- what else sees it ---


def test_a_subscription_of_another_log_is_woken_by_a_block(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as reader:
        log.create_topic("orders", proof=True)
        with reader.subscribe("orders") as subscription:
            with log.transaction():
                log.append("orders", CREATED)
            record = subscription.next(timeout_s=60.0)
        assert record is not None
        (report,) = log.verify("orders")
        assert (report.is_sound, report.records) == (True, 1)


def test_a_block_on_an_event_loop_is_the_same(log: sl.Log, server: PostgresServer) -> None:
    async def main() -> tuple[int, list[Any]]:
        alog = sl.AsyncLog(log)
        async with alog.transaction() as connection:
            await connection.execute("INSERT INTO orders VALUES (%s)", ("new",))
            await connection.executemany("INSERT INTO orders VALUES (%s)", [("a",), ("b",)])
            found = await (await connection.execute("SELECT count(*) FROM orders")).fetchall()
            receipt = alog.append("orders", CREATED)
        return (await receipt).offset, found

    assert asyncio.run(main()) == (0, [(3,)])
    assert rows(server) == ["a", "b", "new"]
