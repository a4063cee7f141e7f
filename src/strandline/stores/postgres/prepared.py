"""A statement that each session prepares once, with values sent already encoded."""

from collections.abc import Sequence
from typing import Final, LiteralString
from weakref import WeakSet

from psycopg import pq
from psycopg.errors import (
    DuplicatePreparedStatement,
    InvalidSqlStatementName,
    error_from_result,
)
from psycopg.generators import execute

from strandline.stores.postgres.database import Connection, PostgresDatabase

_BINARY: Final = pq.Format.BINARY


class PreparedStatement:
    """An autocommitted statement that returns one column. Not for sessions of a pooler.

    psycopg's own way of sending a statement looks up each value's dumper each time.
    """

    def __init__(self, database: PostgresDatabase, name: str, text: LiteralString) -> None:
        self._name: Final = f"strandline_{name}".encode()
        self._text: Final = database.sql(text).encode()
        self._known: WeakSet[Connection] = WeakSet()

    def execute(self, connection: Connection, values: Sequence[bytes | None]) -> bytes | None:
        """Return the column of the only row, None if there is no row; raises psycopg's errors."""
        if connection not in self._known:
            self._prepare(connection)
        try:
            result = self._executed(connection, values)
        except InvalidSqlStatementName:
            # psycopg deallocates all statements of a session after some rollbacks, including
            # ours. Nothing was executed then.
            self._prepare(connection)
            result = self._executed(connection, values)
        return result.get_value(0, 0) if result.ntuples else None

    def _prepare(self, connection: Connection) -> None:
        try:
            self._send_prepare(connection)
        except DuplicatePreparedStatement:
            # An interrupted call prepared it without recording that.
            connection.execute(b"DEALLOCATE " + self._name)
            self._send_prepare(connection)
        self._known.add(connection)

    def _send_prepare(self, connection: Connection) -> None:
        connection.pgconn.send_prepare(self._name, self._text)
        self._result(connection)

    def _executed(
        self, connection: Connection, values: Sequence[bytes | None]
    ) -> "pq.abc.PGresult":
        formats = [_BINARY] * len(values)
        connection.pgconn.send_query_prepared(self._name, values, formats, _BINARY)
        return self._result(connection)

    def _result(self, connection: Connection) -> "pq.abc.PGresult":
        result: pq.abc.PGresult
        (result,) = connection.wait(execute(connection.pgconn))
        if result.status not in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}:
            raise error_from_result(result)
        return result
