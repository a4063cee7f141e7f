"""A conflict inside a block, or at its end, that leaves neither rows nor events."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.values import InvalidError
from tests.log.shop import CREATED, add, kinds, make_shop, refused, rows
from tests.logs import sqlite_log


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make_shop(tmp_path)


@pytest.fixture
def log(path: str) -> Iterator[Log]:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        yield log


def test_a_deferred_constraint_that_fails_the_commit_leaves_nothing_of_either(
    path: str, log: Log
) -> None:
    with log.transaction() as connection:
        connection.execute(
            "CREATE TABLE lines (order_id INTEGER"
            " REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)"
        )

    with refused("FOREIGN KEY"), log.transaction() as connection:
        add(connection, "new")
        receipt = log.append("orders", CREATED)
        connection.execute("INSERT INTO lines VALUES (4711)")

    assert rows(path) == ["old"]
    assert kinds(log) == []
    with pytest.raises(InvalidError, match="nothing of it is stored"):
        _ = receipt.offset
    assert log.append("orders", CREATED).offset == 0


def _on_connection(connection: sqlite3.Connection) -> None:
    add(connection, "alone")


def _on_cursor(connection: sqlite3.Connection) -> None:
    connection.cursor().execute("INSERT INTO orders (name) VALUES ('alone')")


def _many(connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO orders (name) VALUES (?)", [("alone",)])


def _blob(connection: sqlite3.Connection) -> None:
    with connection.blobopen("notes", "text", 1) as blob:
        blob.write(b"alone")


@pytest.mark.parametrize("write", [_on_connection, _on_cursor, _many, _blob])
@pytest.mark.parametrize("conflict", ["INSERT OR ROLLBACK INTO orders (name)", "INSERT INTO names"])
def test_nothing_is_committed_alone_after_sqlite_rolled_the_transaction_back(
    write: Callable[[sqlite3.Connection], None], conflict: str, path: str, log: Log
) -> None:
    with log.transaction() as connection:
        connection.execute(
            "CREATE TRIGGER no_names INSTEAD OF INSERT ON names"
            " BEGIN SELECT RAISE(ROLLBACK, 'no names'); END"
        )
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("INSERT INTO notes VALUES ('first')")

    with refused("repeat all of it"), log.transaction() as connection:
        log.append("orders", CREATED)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(f"{conflict} VALUES ('old')")
        with pytest.raises(InvalidError, match="repeat all of it"):
            write(connection)

    assert rows(path) == ["old"]
    assert kinds(log) == []
    with log.transaction() as connection:
        assert connection.execute("SELECT text FROM notes").fetchone() == ("first",)
