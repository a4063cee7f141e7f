"""A statement that a session prepares once, and whose values are sent as they are."""

from collections.abc import Sequence
from typing import Final, LiteralString
from weakref import WeakSet

from psycopg import pq
from psycopg.errors import error_from_result
from psycopg.generators import execute

from strandline.stores.postgres.database import Connection, PostgresDatabase

_BINARY: Final = pq.Format.BINARY


class PreparedStatement:
    """One that returns one column, and commits by itself. Not for a session of a pooler.

    psycopg's own way of sending a statement looks up how each value is sent, each time.
    """

    def __init__(self, database: PostgresDatabase, name: str, text: LiteralString) -> None:
        self._name: Final = f"strandline_{name}".encode()
        self._text: Final = database.sql(text).encode()
        self._known: WeakSet[Connection] = WeakSet()

    def execute(self, connection: Connection, values: Sequence[bytes | None]) -> bytes | None:
        """Return the column of the one row, None if there is no row; psycopg's errors."""
        pgconn = connection.pgconn
        if connection not in self._known:
            pgconn.send_prepare(self._name, self._text)
            self._result(connection)
            self._known.add(connection)
        pgconn.send_query_prepared(self._name, values, [_BINARY] * len(values), _BINARY)
        result = self._result(connection)
        return result.get_value(0, 0) if result.ntuples else None

    def _result(self, connection: Connection) -> "pq.abc.PGresult":
        result: pq.abc.PGresult
        (result,) = connection.wait(execute(connection.pgconn))
        if result.status not in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}:
            raise error_from_result(result)
        return result
