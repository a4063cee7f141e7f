"""The caller's rows and its events in one transaction of a SQLite log."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from strandline.log import AsyncReceipt, Log
from strandline.stores.sqlite import block
from strandline.values import (
    ConflictError,
    Durability,
    Event,
    FullError,
    InvalidError,
    UnavailableError,
)
from tests.log.shop import (
    CREATED,
    ChangedMindError,
    add,
    kinds,
    make_shop,
    refused,
    rolled_back,
    rows,
)
from tests.logs import sqlite_log

PATIENCE_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make_shop(tmp_path)


@pytest.fixture
def log(path: str) -> Iterator[Log]:
    with sqlite_log(path, lock_timeout_s=0.2) as log:
        log.create_topic("orders")
        yield log


# --- in an application's own database ---


def test_a_log_moves_into_a_database_that_is_there_and_leaves_the_rest_alone(path: str) -> None:
    def schema() -> set[tuple[str, str]]:
        connection = sqlite3.connect(path)
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
        each = set(found.fetchall())
        connection.close()
        return each

    before = schema()

    with sqlite_log(path) as log:
        log.create_topic("orders")
        log.append("orders", CREATED)

    assert before <= schema()
    assert all(name.startswith("strandline_") for name, _ in schema() - before)
    assert rows(path) == ["old"]


# --- together ---


def test_rows_and_events_are_there_together_when_the_block_is_left(path: str, log: Log) -> None:
    with log.transaction() as connection:
        add(connection, "new")
        receipt = log.append("orders", CREATED)
        several = log.append_many("orders", [Event("a", {}), Event("b", {})])
        seen_inside = rows(path), kinds(log), log.marks("orders", 0).high
        offsets = [receipt.offset, *(each.offset for each in several)]

    assert seen_inside == (["old"], [], 0)
    assert offsets == [0, 1, 2] == [receipt.offset, *(each.offset for each in several)]
    assert rows(path) == ["old", "new"]
    assert kinds(log) == ["order.created", "a", "b"]


def test_a_block_that_raises_leaves_nothing_of_either(path: str, log: Log) -> None:
    log.append("orders", Event("before", {}))

    with rolled_back(log) as connection:
        add(connection, "new")
        receipt = log.append("orders", CREATED)

    assert rows(path) == ["old"]
    assert kinds(log) == ["before"]
    with pytest.raises(InvalidError, match="nothing of it is stored") as caught:
        _ = receipt.offset
    assert isinstance(caught.value.__cause__, ChangedMindError)
    with pytest.raises(InvalidError, match="nothing of it is stored"):
        receipt.wait()
    assert (receipt.is_settled, receipt.level) == (True, None)
    with rolled_back(log):
        assert log.append("orders", CREATED).offset == 1
    assert log.append("orders", Event("after", {})).offset == 1


def test_appends_continue_densely_around_blocks(log: Log) -> None:
    offsets = []
    for _ in range(3):
        offsets.append(log.append("orders", CREATED).offset)
        with log.transaction():
            offsets.append(log.append("orders", CREATED).offset)
        offsets.append(log.append("orders", CREATED).offset)

    assert offsets == list(range(9))


def test_appends_continue_densely_around_blocks_of_two_logs(path: str, log: Log) -> None:
    with sqlite_log(path) as other:
        offsets = []
        for _ in range(80):
            offsets.append(log.append("orders", CREATED).offset)
            with other.transaction():
                offsets.append(other.append("orders", CREATED).offset)
            offsets.append(other.append("orders", CREATED).offset)
            with log.transaction():
                offsets.append(log.append("orders", CREATED).offset)

        assert offsets == list(range(320))
        assert other.marks("orders", 0).high == log.marks("orders", 0).high == 320


def test_a_receipt_is_settled_by_the_commit_and_becomes_durable_on_request(log: Log) -> None:
    with log.transaction():
        receipt = log.append("orders", CREATED)
        inside = receipt.is_settled, receipt.level
        with pytest.raises(InvalidError, match="after that"):
            receipt.wait()

    assert inside == (False, None)
    assert (receipt.is_settled, receipt.level) == (True, Durability.WRITTEN)
    assert receipt.wait(Durability.DURABLE).level is Durability.DURABLE
    assert log.marks("orders", 0).durable == 1


def test_a_durable_append_makes_its_whole_block_durable(log: Log) -> None:
    with log.transaction():
        log.append("orders", CREATED)
        receipt = log.append("orders", CREATED, durability=Durability.DURABLE)

    assert receipt.level is Durability.DURABLE
    assert log.marks("orders", 0).durable == 2


def test_another_thread_and_an_event_loop_wait_for_the_end_of_the_block(log: Log) -> None:
    receipts = []
    has_appended, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with log.transaction():
            receipts.append(log.append("orders", CREATED))
            has_appended.set()
            may_end.wait(PATIENCE_S)

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_appended.wait(PATIENCE_S)
    with pytest.raises(UnavailableError, match="wait again"):
        receipts[0].wait(timeout_s=0)

    async def wait() -> None:
        with pytest.raises(UnavailableError, match="wait again"):
            await AsyncReceipt(receipts[0]).wait(timeout_s=0.01)
        waiting = asyncio.create_task(AsyncReceipt(receipts[0]).wait(Durability.DURABLE))
        await asyncio.sleep(0)
        may_end.set()
        assert (await waiting).level is Durability.DURABLE

    asyncio.run(wait())
    thread.join()
    assert receipts[0].wait().offset == 0


def test_identities_and_expected_offsets_hold_inside_a_block(log: Log) -> None:
    log.append("orders", CREATED, idempotency_key="first")

    with log.transaction():
        repeat = log.append("orders", CREATED, idempotency_key="first")
        fresh = log.append("orders", CREATED, idempotency_key="second")
        again = log.append("orders", CREATED, idempotency_key="second")
        sequence = log.append("orders", CREATED, producer="p", sequence=1)
        with pytest.raises(ConflictError):
            log.append("orders", CREATED, expected_offset=1)
        log.append("orders", CREATED, expected_offset=3)

    assert [(r.offset, r.is_repeat) for r in (repeat, fresh, again, sequence)] == [
        (0, True),
        (1, False),
        (1, True),
        (2, False),
    ]
    assert log.append("orders", CREATED, producer="p", sequence=1).is_repeat


def test_an_identity_that_was_rolled_back_is_free_again(log: Log) -> None:
    with rolled_back(log):
        log.append("orders", CREATED, idempotency_key="key")

    assert not log.append("orders", CREATED, idempotency_key="key").is_repeat


def test_a_proof_continues_through_blocks(log: Log) -> None:
    log.create_topic("proved", proof=True)
    for _ in range(2):
        with log.transaction():
            log.append_many("proved", [CREATED, CREATED])
        with rolled_back(log):
            log.append("proved", CREATED)
        log.append("proved", CREATED)

    assert log.marks("proved", 0).high == 6
    (report,) = log.verify("proved")
    assert not report.findings


def test_a_tail_is_notified_after_the_commit_and_not_of_what_was_rolled_back(log: Log) -> None:
    watch = log.watch()
    watch.add("orders", 0, 0)
    watch.wait(0)

    with log.transaction():
        log.append("orders", CREATED)
        told_inside = watch.wait(0)
    told = watch.wait(PATIENCE_S)
    with rolled_back(log):
        log.append("orders", CREATED)

    assert not told_inside
    assert [hint.end for hint in told] == [1]
    assert not watch.wait(0)


def test_no_reader_is_notified_before_the_commit(log: Log) -> None:
    watch = log.watch()
    watch.add("orders", 0, 0)
    watch.wait(0)
    told_before: list[int] = []

    def notice(statement: str) -> None:
        if statement == "COMMIT":
            told_before.append(len(watch.wait(0)))

    with log.transaction() as connection:
        log.append("orders", CREATED)
        connection.set_trace_callback(notice)

    assert told_before == [0]
    assert len(watch.wait(0)) == 1


# --- savepoints are the caller's ---


def test_a_savepoint_takes_events_back_with_the_rows(path: str, log: Log) -> None:
    with log.transaction() as connection:
        add(connection, "kept")
        kept = log.append("orders", Event("kept", {}))
        connection.execute("SAVEPOINT mine")
        add(connection, "undone")
        undone = log.append("orders", Event("undone", {}), idempotency_key="key")
        repeat = log.append("orders", Event("undone", {}), idempotency_key="key")
        connection.execute("ROLLBACK TO mine")
        later = log.append("orders", Event("later", {}))

    assert rows(path) == ["old", "kept"]
    assert kinds(log) == ["kept", "later"]
    assert (kept.offset, later.offset) == (0, 1)
    for receipt in (undone, repeat):
        with pytest.raises(InvalidError, match="savepoint"):
            _ = receipt.offset
    assert not log.append("orders", CREATED, idempotency_key="key").is_repeat


def test_a_repeat_of_what_took_the_place_of_an_undone_append_is_stored(log: Log) -> None:
    with log.transaction() as connection:
        connection.execute("SAVEPOINT mine")
        undone = log.append("orders", Event("undone", {}), idempotency_key="key")
        connection.execute("ROLLBACK TO mine")
        kept = log.append("orders", Event("kept", {}), idempotency_key="key")
        repeat = log.append("orders", Event("kept", {}), idempotency_key="key")

    assert kinds(log) == ["kept"]
    assert [(each.offset, each.is_repeat) for each in (kept, repeat)] == [(0, False), (0, True)]
    with pytest.raises(InvalidError, match="savepoint"):
        _ = undone.offset


# --- whose transaction it is ---


def test_what_would_end_the_transaction_is_refused_and_it_continues(path: str, log: Log) -> None:
    with log.transaction() as connection:
        add(connection, "new")
        for call in (connection.commit, connection.rollback, connection.close):
            with pytest.raises(InvalidError, match="leave it to commit"):
                call()
        with pytest.raises(InvalidError, match="leave it to commit"):
            connection.executescript("CREATE TABLE other (id)")
        with pytest.raises(InvalidError, match="leave it to commit"), connection:
            pass
        for statement in ("COMMIT", "END", "ROLLBACK", "BEGIN"):
            with pytest.raises(InvalidError, match="leave it to commit"):
                connection.execute(statement)
            with pytest.raises(InvalidError, match="leave it to commit"):
                connection.cursor().execute(statement)
        with pytest.raises(InvalidError, match="leave it to commit"):
            connection.cursor().executescript("CREATE TABLE other (id)")
        log.append("orders", CREATED)

    assert rows(path) == ["old", "new"]
    assert kinds(log) == ["order.created"]


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE strandline_records",
        "DELETE FROM strandline_records",
        "UPDATE Strandline_Records SET place = place + 1",
        "INSERT INTO strandline_log SELECT * FROM strandline_log",
        "ALTER TABLE strandline_records RENAME TO other",
        "CREATE INDEX mine ON strandline_records (place)",
        "CREATE TRIGGER mine AFTER INSERT ON strandline_records BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER mine AFTER INSERT ON strandline_records BEGIN SELECT 1; END",
        "CREATE TEMP TABLE strandline_records (place)",
        "CREATE TEMP VIEW strandline_records AS SELECT 1",
        "CREATE TABLE strandline_mine (id)",
    ],
)
def test_the_logs_own_tables_cannot_be_changed_in_a_block(
    path: str, log: Log, statement: str
) -> None:
    log.append("orders", CREATED)
    with log.transaction() as connection:
        add(connection, "new")
        log.append("orders", CREATED)
        for execute in (connection.execute, connection.cursor().execute):
            with pytest.raises(InvalidError, match=r"(?i)belong to the log.*table=.?strandline_"):
                execute(statement)
        assert connection.execute("SELECT count(*) FROM strandline_records").fetchone() == (2,)
        log.append("orders", CREATED)

    assert rows(path) == ["old", "new"]
    assert kinds(log) == ["order.created"] * 3
    assert log.verify("orders") is not None


def test_an_authorizer_that_lets_everything_through_is_found(path: str, log: Log) -> None:
    with mock.patch.object(block, "_CHANGES", frozenset()), pytest.raises(pytest.fail.Exception):
        test_the_logs_own_tables_cannot_be_changed_in_a_block(
            path, log, "DELETE FROM strandline_records"
        )


def test_a_connection_is_of_no_use_after_its_block(log: Log) -> None:
    with log.transaction() as connection:
        assert isinstance(connection, sqlite3.Connection)

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_statement_that_still_writes_is_reported_and_all_is_rolled_back(
    path: str, log: Log
) -> None:
    with refused("still open"), log.transaction() as connection:
        receipt = log.append("orders", CREATED)
        left = connection.execute("INSERT INTO orders (name) VALUES ('a'), ('b') RETURNING id")

    assert left is not None
    assert rows(path) == ["old"]
    assert kinds(log) == []
    with pytest.raises(InvalidError, match="nothing of it is stored"):
        receipt.wait()


@pytest.mark.slow
def test_a_query_that_was_not_read_to_its_end_blocks_no_other(path: str, log: Log) -> None:
    with log.transaction() as connection:
        add(connection, "new")
        left = connection.execute("SELECT * FROM orders")
        left.fetchone()
        log.append("orders", CREATED)

    log.flush()
    assert rows(path) == ["old", "new"]


def test_how_the_caller_sees_rows_does_not_matter_to_the_log(log: Log) -> None:
    log.append("orders", CREATED, idempotency_key="key")
    with log.transaction() as connection:
        connection.row_factory = lambda _, row: {"row": row}
        connection.text_factory = bytes
        assert log.append("orders", CREATED, idempotency_key="key").is_repeat
        log.append("orders", CREATED)
        assert connection.execute("SELECT name FROM orders").fetchone() == {"row": (b"old",)}

    assert log.marks("orders", 0).high == 2


def test_an_append_that_fails_half_way_lets_nothing_of_its_block_be_committed(
    path: str, log: Log
) -> None:
    large = Event("large", {"text": "x" * 500_000})

    with refused("half-way") as caught, log.transaction() as connection:
        add(connection, "new")
        receipt = log.append("orders", CREATED)
        connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(FullError, match="full"):
            log.append("orders", large)
        with pytest.raises(InvalidError, match="half-way"):
            log.append("orders", CREATED)

    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert rows(path) == ["old"]
    assert kinds(log) == []
    with pytest.raises(InvalidError, match="nothing of it is stored"):
        receipt.wait()
    assert log.append("orders", large).offset == 0
