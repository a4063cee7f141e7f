"""Who may do what while a transaction of a SQLite log is open: threads, event loops, forks."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from strandline.values import ClosedError, Event, InvalidError, UnavailableError
from tests.log.shop import CREATED, add, kinds, make_shop, rolled_back, rows
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


def is_closed(log: Log) -> bool:
    try:
        log.marks("orders", 0)
    except ClosedError:
        return True
    return False


def test_one_inside_another_and_calls_that_change_more_are_refused(log: Log) -> None:
    log.append("orders", CREATED)
    with log.transaction():
        for call in (
            lambda: log.transaction().__enter__(),
            lambda: log.create_topic("others"),
            lambda: log.ack("orders", "c", 0, 1),
            lambda: log.trim("orders", 0, 1),
            lambda: log.sync("orders", 0),
            log.flush,
            log.close,
        ):
            with pytest.raises(InvalidError, match="transaction"):
                call()
        receipt = log.append("orders", CREATED)

    assert receipt.wait().offset == 1
    log.create_topic("others")


def test_other_threads_wait_and_raise_when_it_takes_too_long(log: Log) -> None:
    told: list[BaseException | int] = []

    def append(timeout_s: float) -> None:
        try:
            told.append(log.append("orders", Event("other", {}), timeout_s=timeout_s).offset)
        except UnavailableError as error:
            told.append(error)

    with log.transaction():
        log.append("orders", CREATED)
        hasty = threading.Thread(target=append, args=(0.01,))
        hasty.start()
        hasty.join()
        patient = threading.Thread(target=append, args=(PATIENCE_S,))
        patient.start()
    patient.join()

    assert isinstance(told[0], UnavailableError)
    assert told[0].write == Event("other", {})
    assert told[1:] == [1]


def test_the_connection_is_for_the_blocks_own_thread(log: Log) -> None:
    told: list[BaseException] = []

    def use(connection: sqlite3.Connection) -> None:
        try:
            connection.execute("SELECT 1")
        except sqlite3.ProgrammingError as error:
            told.append(error)

    with log.transaction() as connection:
        thread = threading.Thread(target=use, args=(connection,))
        thread.start()
        thread.join()

    assert "same thread" in str(told[0])


@pytest.mark.slow
def test_a_log_that_another_thread_closes_lets_the_block_come_to_its_end(
    path: str, log: Log
) -> None:
    with log.transaction() as connection:
        add(connection, "new")
        log.append("orders", CREATED)
        thread = threading.Thread(target=log.close)
        thread.start()
        while not is_closed(log):
            thread.join(0.01)
        with pytest.raises(ClosedError):
            log.append("orders", CREATED)
    thread.join()

    with sqlite_log(path) as again:
        assert rows(path) == ["old", "new"]
        assert kinds(again) == ["order.created"]


def test_a_block_on_an_event_loop_is_as_any_other(path: str, log: Log) -> None:
    async def work() -> None:
        with log.transaction() as connection:
            add(connection, "new")
            log.append("orders", CREATED)

    asyncio.run(work())

    assert rows(path) == ["old", "new"]
    assert kinds(log) == ["order.created"]


def test_a_loop_that_runs_inside_a_block_appends_into_it(log: Log) -> None:
    async def append() -> int:
        return log.append("orders", CREATED).offset

    with rolled_back(log):
        assert asyncio.run(append()) == 0

    assert kinds(log) == []


def test_a_child_of_a_fork_can_neither_append_nor_end_the_block(path: str, log: Log) -> None:
    def be_the_child(connection: sqlite3.Connection) -> int:
        try:
            log.append("orders", CREATED)
        except ClosedError:
            pass
        else:
            return 1
        try:
            connection.execute("DELETE FROM orders WHERE 1")
        except sqlite3.DatabaseError:
            return 0
        return 2

    block = log.transaction()
    connection = block.__enter__()
    add(connection, "new")
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            code = be_the_child(connection)
            try:
                block.__exit__(None, None, None)
                code = 4
            except ClosedError:
                pass
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    log.append("orders", CREATED)
    block.__exit__(None, None, None)

    assert rows(path) == ["old", "new"]
    assert kinds(log) == ["order.created"]


def test_logs_that_are_not_in_sqlite_say_where_to_go(tmp_path: Path) -> None:
    for url in ("memory:", f"file:{tmp_path / 'events'}"):
        with sl.open(url) as log, pytest.raises(InvalidError, match="sqlite:"):
            log.transaction()


def test_a_log_that_may_not_write_refuses(path: str, log: Log) -> None:
    log.append("orders", CREATED)
    for mode in ("read", "consume"):
        with sqlite_log(path, mode=mode) as other, pytest.raises(InvalidError, match="mode"):
            other.transaction()
