"""An application with its own table in the database of a log."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.values import Event, InvalidError

CREATED = Event("order.created", {"id": 1})


class ChangedMindError(Exception):
    """Leaves a block that is not to be committed."""


def make_shop(folder: Path) -> str:
    """Make the database, with one row in it, and return its path."""
    path = str(folder / "shop.sqlite")
    with sqlite3.connect(path) as application:
        application.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        application.execute("CREATE VIEW names AS SELECT name FROM orders")
        application.execute("INSERT INTO orders VALUES (1, 'old')")
    application.close()
    return path


def add(connection: sqlite3.Connection, name: str) -> None:
    """Write a row."""
    connection.execute("INSERT INTO orders (name) VALUES (?)", (name,))


def rows(path: str) -> list[str]:
    """Return the names that another connection sees."""
    connection = sqlite3.connect(path)
    try:
        return [name for (name,) in connection.execute("SELECT name FROM orders ORDER BY id")]
    finally:
        connection.close()


def kinds(log: Log) -> list[str]:
    """Return what is in the topic."""
    return [record.kind for record in log.read("orders", 0, 0)]


@contextlib.contextmanager
def rolled_back(
    log: Log, outside: sqlite3.Connection | None = None
) -> Iterator[sqlite3.Connection]:
    """Begin a transaction that raises at the end of the block."""
    with contextlib.suppress(ChangedMindError), log.transaction(outside) as connection:
        yield connection
        raise ChangedMindError


@contextlib.contextmanager
def refused(match: str) -> Iterator[pytest.ExceptionInfo[InvalidError]]:
    """Expect that the block raises InvalidError, at the latest when it is left."""
    with pytest.raises(InvalidError, match=match) as caught:
        yield caught
