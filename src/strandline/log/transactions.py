"""Rows of the caller's own, committed together with its appends."""

import sqlite3
from contextlib import AbstractContextManager
from typing import Protocol

from strandline.values import InvalidError


class LogTransactions(Protocol):
    """Adds records together with rows of the caller's own."""

    def transaction(
        self, connection: sqlite3.Connection | None = None
    ) -> AbstractContextManager[sqlite3.Connection]:
        """Give a connection to the log's own database, for rows beside the log's.

        What this thread appends inside the block, and what it writes with the connection,
        is committed together when the block is left, and rolled back together when it
        raises. Nobody sees any of it before, the thread's own reads of the log included.
        A receipt has its offset at once, which is final when the block is left; of what
        was rolled back, be it to a savepoint, it raises InvalidError. Whoever else wants
        to write waits, so keep it short.

        The transaction is the log's: InvalidError for ending it by any other way than
        leaving the block, for one inside another, and for calls of the same thread that
        change anything but append, and for SQL that changes the log's own tables. What is
        given to the connection's `before_append` is called before each append, for a
        library that begins its savepoints late. A `connection` that was opened elsewhere is taken
        where SQLite is 3.51.3 or newer and it is to the same file. InvalidError where the
        log is not kept in SQLite: use `sqlite:`.
        """


class NoTransactions:
    """Implements LogTransactions for a log that is not kept in SQLite."""

    def transaction(
        self,
        connection: sqlite3.Connection | None = None,  # noqa: ARG002 - See the contract.
    ) -> AbstractContextManager[sqlite3.Connection]:
        raise InvalidError("only a sqlite: log shares its transactions, open one in your database")
