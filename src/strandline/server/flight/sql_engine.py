"""SQL over the topics of a caller, run by DuckDB, which can read nothing else.

Each statement has its own database, in memory: without files, network, extensions or
Python variables, with a locked configuration, and with limits on memory and time.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.scans import scan
from strandline.server.caller import Caller
from strandline.server.flight.calls import FlightCalls
from strandline.server.flight.sql_statement import CATALOG, SCHEMA, tables_of
from strandline.server.problems import RequestError
from strandline.server.settings import ServerSettings
from strandline.values import InvalidError, Topic

_ROWS: Final = 16 * 1024
#: The time limit for reading a statement's rows, as a multiple of its limit for computing.
_READING: Final = 10
_CONFIGURATION: Final = {
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
}


class SqlEngine:
    """Runs statements of callers."""

    def __init__(self, log: Log, settings: ServerSettings, calls: FlightCalls) -> None:
        self._log = log
        self._settings = settings
        self._calls = calls
        self._clock: Clock = parts_of(log).clock

    def schema(self, caller: Caller, sql: str, values: Sequence[object] = ()) -> pa.Schema:
        """Return the columns of a statement's rows; InvalidError if it cannot run."""
        with (
            self._running(caller, sql) as (connection, within),
            within(),
            _in_words(self._settings),
        ):
            if not values:
                return connection.sql(sql).limit(0).to_arrow_table().schema
            # It was parsed as one statement. Add a line break, since it may end with a comment.
            narrow = f"SELECT * FROM (\n{_bare(sql)}\n) LIMIT 0"  # noqa: S608 - As above.
            return connection.execute(narrow, list(values)).to_arrow_reader(1).schema

    def described(self, caller: Caller, sql: str) -> tuple[pa.Schema | None, pa.Schema]:
        """Return the columns of a statement, and those of its parameters.

        The former are None if they depend on parameters.
        """
        with contextlib.closing(self._database()) as connection, _in_words(self._settings):
            tables_of(connection, sql)
            names = connection.extract_statements(sql)[0].named_parameters
        parameters = pa.schema([pa.field(each, pa.null()) for each in sorted(names)])
        return (None if names else self.schema(caller, sql)), parameters

    def rows(
        self, caller: Caller, sql: str, values: Sequence[object] = ()
    ) -> Iterator[pa.Schema | pa.RecordBatch]:
        """Yield the columns of a statement, and then its rows in batches."""
        with self._running(caller, sql) as (connection, within):
            with within(), _in_words(self._settings):
                reader = connection.execute(sql, list(values)).to_arrow_reader(_ROWS)
            yield reader.schema
            while True:
                within.check_reader()
                try:
                    with within(), _in_words(self._settings):
                        batch = reader.read_next_batch()
                except StopIteration:
                    return
                yield batch

    @contextlib.contextmanager
    def _running(
        self, caller: Caller, sql: str
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, "_Budget"]]:
        with self._calls.one_query(caller), contextlib.closing(self._database()) as connection:
            budget = _Budget(self._settings.sql_timeout_s, self._calls, self._clock, connection)
            with budget(), _in_words(self._settings):
                for name, topic in self._tables(caller, tables_of(connection, sql)):
                    _register(connection, name, scan(self._log, topic))
                connection.execute("SET lock_configuration = true")
            yield connection, budget

    def _database(self) -> duckdb.DuckDBPyConnection:
        most = self._settings.sql_memory_bytes_max
        configuration: dict[str, Any] = {**_CONFIGURATION, "memory_limit": f"{most // 1024}KiB"}
        connection = duckdb.connect(":memory:", config=configuration)
        connection.execute(f"ATTACH ':memory:' AS {CATALOG}")
        connection.execute(f"USE {CATALOG}")
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def _tables(self, caller: Caller, names: list[str]) -> Iterator[tuple[str, Topic]]:
        """Yield the topics of a statement. Names in DuckDB are case-insensitive."""
        taken: dict[str, str] = {}
        for name in names:
            topic = self._topic(caller, name)
            before = taken.setdefault(name.lower(), topic.name)
            if before != topic.name:
                raise InvalidError(
                    "names in SQL are case-insensitive, read one of these topics at a time",
                    topics=[before, topic.name],
                )
            yield name, topic

    def _topic(self, caller: Caller, name: str) -> Topic:
        visible = caller.all_of(self._log)
        for topic in visible:
            if topic.name == name:
                return topic
        like = [topic for topic in visible if topic.name.lower() == name.lower()]
        return like[0] if len(like) == 1 else caller.find(self._log, name)


class _Budget:
    """The time limits of a statement: for computing, and for reading its rows."""

    def __init__(
        self,
        seconds: float,
        calls: FlightCalls,
        clock: Clock,
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        self._left = seconds
        self._readable_s = seconds * _READING
        self._readable_until = clock.monotonic() + self._readable_s
        self._calls = calls
        self._clock = clock
        self._connection = connection

    def check_reader(self) -> None:
        """Raise RequestError if the rows are read so slowly that other statements must wait."""
        if self._clock.monotonic() > self._readable_until:
            raise RequestError(
                408, f"the rows were not read within {self._readable_s:.0f} s, read less at a time"
            )

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Count the time of the block; interrupt the statement when no time is left."""
        begun = self._clock.monotonic()
        try:
            with self._calls.within(max(0.0, self._left), self._connection.interrupt):
                yield
        finally:
            self._left -= self._clock.monotonic() - begun


@contextlib.contextmanager
def _in_words(settings: ServerSettings) -> Iterator[None]:
    try:
        yield
    except duckdb.InterruptException:
        raise RequestError(
            408, f"the statement took longer than {settings.sql_timeout_s:.0f} s, read less"
        ) from None
    except duckdb.OutOfMemoryException:
        raise InvalidError(
            "the statement needs more memory than it may take, read less",
            bytes_max=settings.sql_memory_bytes_max,
            value="memory",
        ) from None
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise InvalidError("the statement has failed", reason=_first_lines(str(error))) from None


def _first_lines(text: str) -> str:
    return text.partition("\n\n")[0]


def _bare(sql: str) -> str:
    """Return the one statement without its semicolon."""
    return sql.strip().rstrip(";")


def _register(connection: duckdb.DuckDBPyConnection, name: str, rows: Any) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    view = f"{CATALOG}.{SCHEMA}.{quoted}"
    connection.register(name, rows)
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM temp.main.{quoted}")  # noqa: S608 - The name of a topic, quoted.
