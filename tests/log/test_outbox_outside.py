"""A transaction of the log on a connection that the caller has opened elsewhere."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.stores.sqlite import outbox
from strandline.values import Event, InvalidError, UnknownError
from tests.log.shop import CREATED, add, kinds, make_shop, refused, rolled_back, rows
from tests.logs import sqlite_log


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make_shop(tmp_path)


@pytest.fixture
def log(path: str) -> Iterator[Log]:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        yield log


@pytest.fixture
def outside(path: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    yield connection
    connection.close()


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "SQLITE_VERSION", (3, 51, 3))


def test_a_connection_from_elsewhere_is_refused_where_sqlite_may_damage_its_log(
    log: Log, outside: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "SQLITE_VERSION", (3, 51, 2))

    with (
        pytest.raises(InvalidError, match=r"before 3\.51\.3.*sqlite='3\.51\.2'"),
        log.transaction(outside),
    ):
        pass


@pytest.mark.usefixtures("newer")
def test_a_connection_from_elsewhere_takes_part_and_stays_open(
    path: str, log: Log, outside: sqlite3.Connection
) -> None:
    outside.row_factory = sqlite3.Row
    with log.transaction(outside) as connection:
        add(connection, "new")
        receipt = log.append("orders", CREATED)
    with rolled_back(log, outside) as connection:
        add(connection, "undone")
        log.append("orders", CREATED)

    assert connection is outside
    assert receipt.offset == 0
    assert rows(path) == ["old", "new"]
    assert kinds(log) == ["order.created"]
    assert outside.execute("SELECT count(*) AS n FROM orders").fetchone()["n"] == 2


@pytest.mark.usefixtures("newer")
def test_a_connection_to_another_file_or_in_a_transaction_or_unsynced_is_refused(
    tmp_path: Path, log: Log, outside: sqlite3.Connection
) -> None:
    def refused(connection: object, match: str) -> None:
        with pytest.raises(InvalidError, match=match), log.transaction(connection):
            pass

    elsewhere = sqlite3.connect(tmp_path / "other.sqlite")
    refused(elsewhere, "a file other")
    elsewhere.close()
    in_memory = sqlite3.connect(":memory:")
    refused(in_memory, "a file other")
    in_memory.close()
    refused("shop.sqlite", "the sqlite3 connection itself")
    add(outside, "pending")
    refused(outside, "inside a transaction already")
    outside.rollback()
    outside.execute("PRAGMA synchronous = OFF")
    refused(outside, "never syncs")


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("begins_anew", [False, True])
def test_committing_a_connection_of_its_own_raises_and_nothing_is_torn(
    path: str, log: Log, outside: sqlite3.Connection, begins_anew: bool
) -> None:
    with refused("inside its block"), log.transaction(outside):
        add(outside, "early")
        receipt = log.append("orders", CREATED)
        outside.commit()
        if begins_anew:
            add(outside, "late")
            log.append("orders", Event("late", {}))

    assert rows(path) == ["old", "early"]
    assert kinds(log) == ["order.created"]
    with pytest.raises(UnknownError):
        _ = receipt.offset
    assert log.append("orders", CREATED).offset == 1


@pytest.mark.usefixtures("newer")
def test_closing_a_connection_of_its_own_raises_and_nothing_is_stored(
    path: str, log: Log, outside: sqlite3.Connection
) -> None:
    with refused("was closed"), log.transaction(outside):
        add(outside, "new")
        log.append("orders", CREATED)
        outside.close()

    assert rows(path) == ["old"]
    assert kinds(log) == []
