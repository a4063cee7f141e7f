"""Connections to the server, and the log's own row there."""

import contextlib
import hashlib
import re
import select  # noqa: TID251 - It looks at a socket, and opens nothing.
from collections.abc import Callable, Iterator
from typing import Any, Final, LiteralString, Protocol, TypeAlias, cast
from urllib.parse import urlencode
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from strandline.clock import Clock
from strandline.log.open_state import OpenState, closed_log
from strandline.log.patience import patience_s
from strandline.log.store import Capabilities, Reach
from strandline.stores.postgres.arrays import register_arrays
from strandline.stores.postgres.errors import translate, translated
from strandline.stores.postgres.schema import FORMAT, MIGRATIONS
from strandline.stores.postgres.sessions import session_name
from strandline.values import (
    Durability,
    InvalidError,
    Mode,
    StrandlineError,
)
from strandline.values.log_url import NO_LOG
from strandline.values.names import check_text

Connection: TypeAlias = "psycopg.Connection[TupleRow]"

SCHEMA_DEFAULT: Final = "strandline"
CONNECTIONS_MAX: Final = 16
#: How long an unused connection is kept: other clients may need the slot.
IDLE_S: Final = 30.0
VERSION_MIN: Final = 14_00_00
#: Matches a password with an unescaped slash, which makes the rest of the URL wrong.
_UNESCAPED: Final = re.compile(r"[^:]+://[^/@?]*:[^@?]*/[^?]*@")
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
TIMELINE: Final = """(SELECT system_identifier FROM pg_control_system()) || '/' ||
        (SELECT timeline_id FROM pg_control_checkpoint())"""
_SESSION: Final = "SELECT " + TIMELINE + ", pg_backend_pid()"
#: Settings for one transaction, behind a pooler where the next one may have another session.
_LOCALLY: Final = (
    "SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', %s, true), "
    + TIMELINE
)
_TABLE: Final = """
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = 'log'"""
_SETTINGS: Final = """
    SELECT current_setting('fsync'), current_setting('full_page_writes'),
        current_setting('server_encoding')"""


class PostgresDatabase:
    """A pool of connections to one log. Any thread may use it."""

    def __init__(
        self,
        url: str,
        *,
        schema: str | None,
        mode: Mode,
        clock: Clock,
        lock_timeout_s: float,
        connect_timeout_s: float,
    ) -> None:
        url, schema = split_schema(url, schema)
        self.conninfo = url
        self.schema = schema
        self.mode = mode
        self.clock = clock
        self.lock_timeout_s = lock_timeout_s
        self.lock_timeout_ms: Final = int(lock_timeout_s * 1000)
        self.connect_timeout_s = connect_timeout_s
        self.url: Final = public_url(url, schema)
        self.channel: Final = f"{schema}_news"
        #: The advisory lock that each session listening on the channel holds, shared.
        self.listening: Final = lock_number("listening", schema)
        self.state: Final = OpenState()
        self._statements: dict[LiteralString, LiteralString] = {}
        #: The server's cluster and timeline: another one may lack acknowledged records.
        self.timeline: str = ""
        #: Whether a pooler assigns a session to each transaction: nothing may be left in it.
        self.is_pooled: bool = False
        # Without the pool, which retries for a while and does not report the reason.
        with self.connect() as connection, translated(self.url):
            self._configure(connection)
            self.capabilities: Final = self._look(connection)
            self.log_id: Final = self._prepare(connection)
        self._pool = self._open_pool()

    # --- connections ---

    def connect(self, timeout_s: float | None = None) -> Connection:
        """Return a connection outside the pool, for a caller that keeps it long."""
        options = self._options(self.connect_timeout_s if timeout_s is None else timeout_s)
        with translated(self.url):
            connection = psycopg.connect(self.conninfo, **options)
        return cast("Connection", connection)

    def _options(self, timeout_s: float) -> dict[str, Any]:
        return {
            "autocommit": True,
            "connect_timeout": max(2, int(timeout_s)),
            "client_encoding": "UTF8",
            "application_name": session_name(self.schema),
            **({"prepare_threshold": None} if self.is_pooled else {}),
        }

    def _open_pool(self) -> "ConnectionPool[Connection]":
        return ConnectionPool(
            self.conninfo,
            kwargs=self._options(self.connect_timeout_s),
            min_size=0,
            max_size=CONNECTIONS_MAX,
            timeout=self.connect_timeout_s,
            configure=self._configure,
            check=_check_idle,
            reconnect_timeout=self.connect_timeout_s,
            max_idle=IDLE_S,
            num_workers=2,
            open=True,
            name="strandline-postgres",
        )

    def _configure(self, connection: Connection) -> None:
        register_arrays(connection)
        # After a restore or promotion of the server, all connections are new.
        row = connection.execute(_SESSION).fetchone()
        assert row is not None
        self.timeline, backend = row
        if connection.info.backend_pid != backend:
            # The pooler returned a made-up session number: every transaction needs its own
            # settings. See design 0129.
            self.is_pooled = True
            connection.prepare_threshold = None
            return
        # An acknowledged write must be on disk, whatever the database's own default is.
        connection.execute("SET synchronous_commit = on")
        connection.execute(f"SET lock_timeout = {self.lock_timeout_ms}")

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection, in autocommit; errors in the block are translated."""
        connection = self.take()
        try:
            with translated(self.url):
                yield connection
        finally:
            self.give_back(connection)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection with a snapshot of one moment, unaffected by later commits."""
        with self.connection() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection inside a transaction, which ends with the block."""
        with self.connection() as connection, connection.transaction():
            self._set_locally(connection)
            yield connection

    def begin(self, connection: Connection) -> "Callable[[], None]":
        """Begin a transaction in a pipeline; call the returned function after the pipeline."""
        connection.execute("BEGIN")
        return self._set_locally(connection)

    def _set_locally(self, connection: Connection) -> "Callable[[], None]":
        """Make this transaction commit durably, whatever session the pooler assigns to it."""
        if not self.is_pooled:
            return _nothing
        found = connection.execute(_LOCALLY, (f"{self.lock_timeout_ms}ms",))

        def note() -> None:
            # A pooler does not report that the server behind it was restored or promoted.
            row = found.fetchone()
            assert row is not None
            self.timeline = row[2]

        return note

    def change(self, statement: LiteralString, values: tuple[Any, ...]) -> int:
        """Execute a statement and commit it; return how many rows it changed."""
        with self.connection() as connection:
            if not self.is_pooled:
                return connection.execute(self.sql(statement), values).rowcount
            with connection.pipeline(), connection.transaction():
                self._set_locally(connection)
                changed = connection.execute(self.sql(statement), values)
            return changed.rowcount

    def take(self, timeout_s: float | None = None) -> Connection:
        """Return a connection that works, or did at its last use."""
        self.state.check()
        limit_s = patience_s(self.clock, self.connect_timeout_s) if timeout_s is None else timeout_s
        with self._explaining_timeouts():
            return self._pool.getconn(max(limit_s, 0.01))

    def give_back(self, connection: Connection) -> None:
        """Take a connection back; a broken one is closed."""
        self._pool.putconn(connection)

    @contextlib.contextmanager
    def _explaining_timeouts(self) -> Iterator[None]:
        """Report why no connection was available: the pool itself only reports a timeout."""
        try:
            yield
        except psycopg.OperationalError as error:
            raise self._why_unreachable(error) from error

    def _why_unreachable(self, error: psycopg.OperationalError) -> StrandlineError:
        if self.state.is_closed:
            return closed_log()
        try:
            self.connect(patience_s(self.clock, self.connect_timeout_s)).close()
        except StrandlineError as reason:
            return reason
        return translate(error, self.url)

    # --- statements ---

    def sql(self, template: LiteralString) -> LiteralString:
        """Return a statement in which `{schema}` stands for the log's."""
        found = self._statements.get(template)
        if found is None:
            found = template.replace("{schema}", f'"{self.schema}"')
            self._statements[template] = found
        return found

    # --- the log ---

    def _look(self, connection: Connection) -> Capabilities:
        version = connection.info.server_version
        if version < VERSION_MIN:
            raise InvalidError(
                "this server is too old, use PostgreSQL 14 or newer", version=version // 10_000
            )
        row = connection.execute(_SETTINGS).fetchone()
        assert row is not None
        fsync, full_pages, encoding = row
        if encoding != "UTF8":
            raise InvalidError(
                "the database has an encoding that cannot hold every text, use one with UTF8",
                encoding=encoding,
            )
        is_durable = fsync == "on" and full_pages == "on"
        reason = (
            "each append is committed with synchronous_commit=on, and the server has fsync=on"
            if is_durable
            else f"the server has fsync={fsync} and full_page_writes={full_pages}, so a loss of "
            "power can lose what was committed"
        )
        return Capabilities(
            Durability.DURABLE if is_durable else Durability.WRITTEN,
            reason,
            Reach.NETWORK,
            has_metrics=True,
            has_selection=True,
            has_transactions=True,
            moves=True,
        )

    def _prepare(self, connection: Connection) -> UUID:
        known = self._known(connection)
        if known is None or known[0] < FORMAT:
            if self.mode is not Mode.WRITE:
                raise InvalidError(
                    NO_LOG
                    if known is None
                    else "this log is of an older version, open it once for writing",
                    url=self.url,
                    schema=self.schema,
                )
            known = self._migrate(connection)
        if known[0] > FORMAT:
            raise InvalidError(
                "this log was written by a newer version of strandline, upgrade to use it",
                url=self.url,
                format=known[0],
            )
        return known[1]

    def _known(self, connection: Connection) -> tuple[int, UUID] | None:
        # Ask the catalog: a session's cache of names may be older than the lock it just got.
        if connection.execute(_TABLE, (self.schema,)).fetchone() is None:
            return None
        row = connection.execute(self.sql("SELECT format, log_id FROM {schema}.log")).fetchone()
        return None if row is None else (int(row[0]), row[1])

    def _migrate(self, connection: Connection) -> tuple[int, UUID]:
        """Migrate the tables to the current format; one process at a time."""
        number = lock_number("migrate", self.schema)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
            known = self._known(connection)
            done = 0 if known is None else known[0]
            if known is None:
                connection.execute(self.sql("CREATE SCHEMA IF NOT EXISTS {schema}"))
            for migration in MIGRATIONS[done:]:
                connection.execute(self.sql(migration))
            log_id = self.clock.new_id() if known is None else known[1]
            connection.execute(
                self.sql(
                    "INSERT INTO {schema}.log (format, log_id) VALUES (%s, %s)"
                    " ON CONFLICT (one) DO UPDATE SET format = excluded.format"
                ),
                (FORMAT, log_id),
            )
        return FORMAT, log_id

    # --- the end ---

    def close(self) -> None:
        """Close every connection. May be repeated."""
        self.state.close()
        self._pool.close()


def _nothing() -> None:
    """Nothing to do: our own sessions have their settings already."""


def _check_idle(connection: Connection) -> None:
    """Raise if the server has closed a connection while it was idle.

    Sends nothing unless there is something to read, as there is after a close.
    """
    ready, _, _ = select.select([connection.fileno()], (), (), 0)
    if ready:
        ConnectionPool.check_connection(connection)


def lock_number(*parts: object) -> int:
    """Return the number of the advisory lock with this name."""
    text = "\0".join(["strandline", *map(str, parts)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def split_schema(url: str, given: str | None) -> tuple[str, str]:
    """Return the URL in libpq's form, and the schema of the log."""
    if _UNESCAPED.match(url):
        raise InvalidError("escape the password in this URL: write %2F for /, %40 for @, %3A for :")
    before, mark, query = url.partition("?")
    pairs = query.split("&") if mark else []
    named = [pair.removeprefix("schema=") for pair in pairs if pair.startswith("schema=")]
    rest = "&".join(pair for pair in pairs if not pair.startswith("schema="))
    chosen = {*named, *([] if given is None else [given])} or {SCHEMA_DEFAULT}
    if len(chosen) > 1:
        raise InvalidError(
            "the log is in one schema, name it once", schemas=sorted(map(str, chosen))
        )
    (schema,) = chosen
    check_text(schema, "schema")
    if _SCHEMA_NAME.fullmatch(schema) is None or schema.startswith(("pg_", "information_schema")):
        raise InvalidError(
            "a schema has 1 to 40 of a-z, 0-9 and _, and begins neither with a digit nor with pg_",
            schema=schema,
        )
    return f"{before}?{rest}" if rest else before, schema


def public_url(url: str, schema: str) -> str:
    """Return the URL without secrets, to show to people."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
        raise InvalidError(
            "this is not a URL of a PostgreSQL server,"
            " use postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    user = f"{known['user']}@" if known.get("user") else ""
    host = str(known.get("host") or "")
    port = f":{known['port']}" if known.get("port") else ""
    place = f"{user}{port}" if host.startswith("/") else f"{user}{host}{port}"
    query = {"host": host} if host.startswith("/") else {}
    if schema != SCHEMA_DEFAULT:
        query["schema"] = schema
    after = f"?{urlencode(query, safe='/')}" if query else ""
    return f"postgresql://{place}/{known.get('dbname') or ''}{after}"


class EndListener(Protocol):
    """Notifies that the partition of a slot now ends at an offset."""

    def __call__(self, slot: int, end: int, *, others: bool = True) -> None:
        """Notify this process, and also `others`, unless none of them listens."""
