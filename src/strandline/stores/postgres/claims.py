"""Claims as a session's advisory locks: held across hosts, released when the process ends."""

import contextlib
import threading
import weakref
from typing import Final

import psycopg

from strandline.log.claims import ConsumerPlace, claimed
from strandline.stores.postgres.database import Connection, PostgresDatabase, lock_number
from strandline.stores.postgres.errors import translated
from strandline.stores.postgres.sessions import parse_session_name

_IN_ERROR: Final = psycopg.pq.TransactionStatus.INERROR
_HOLDER: Final = """
    SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND l.classid = (%s::bigint >> 32 & 4294967295)::oid
        AND l.objid = (%s::bigint & 4294967295)::oid
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class PostgresClaim:
    """Implements Claim."""

    def __init__(self, claims: "PostgresClaims", number: int) -> None:
        self._end = weakref.finalize(self, claims.release, number)

    def release(self) -> None:
        """See Claim."""
        self._end()


class PostgresClaims:
    """The claims of one open log, on their own connection. Thread-safe."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        # Reentrant: garbage collection may release a claim while the lock is held.
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._held: set[int] = set()

    def take(self, place: ConsumerPlace) -> PostgresClaim:
        """Return a claim; UnavailableError if another one holds it."""
        number = lock_number("claim", self._database.schema, place.file_name())
        with self._lock, translated(self._database.url):
            connection = self._connected()
            if number in self._held or not self._try(connection, number):
                raise claimed(place, *self._holder(connection, number))
            self._held.add(number)
        return PostgresClaim(self, number)

    def release(self, number: int) -> None:
        """Release it."""
        with self._lock:
            self._held.discard(number)
            connection = self._connection
            if connection is None or self._database.state.is_inherited:
                return
            with contextlib.suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock(%s)", (number,))
                if self._database.is_pooled and not self._held:
                    # Returns the session to the pooler for other clients.
                    connection.execute("COMMIT")
                    connection.close()

    def close(self) -> None:
        """Release every claim."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._held.clear()
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        """Return the connection; on a new one, take the claims again that the lost one held."""
        self._database.state.check()
        connection = self._connection
        if connection is not None and connection.info.transaction_status == _IN_ERROR:
            connection.close()
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect()
            self._keep_session(self._connection)
            for number in self._held:
                self._try(self._connection, number)
        return self._connection

    def _keep_session(self, connection: Connection) -> None:
        """Keep a pooler's session, and its locks, by leaving a transaction open."""
        if self._database.is_pooled:
            connection.execute("BEGIN")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")

    def _try(self, connection: Connection, number: int) -> bool:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
        return bool(row and row[0])

    def _holder(self, connection: Connection, number: int) -> tuple[int | None, str | None]:
        row = connection.execute(_HOLDER, (number, number)).fetchone()
        named = parse_session_name(row[0]) if row else None
        return (None, None) if named is None else (named.pid, named.host)
