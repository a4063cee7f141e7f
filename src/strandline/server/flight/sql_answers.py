"""The commands and actions of Flight SQL."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strandline.log import Log
from strandline.server.caller import Caller
from strandline.server.flight.calls import FlightCalls
from strandline.server.flight.prepared import Prepared, bound, prepared_of
from strandline.server.flight.protobuf import message_of
from strandline.server.flight.publishing import TopicPut, together
from strandline.server.flight.sql_catalogue import metadata_rows
from strandline.server.flight.sql_messages import SqlMessage, closed, opened
from strandline.server.flight.tickets import PutCommand
from strandline.server.settings import ServerSettings
from strandline.server.tokens import TokenScope
from strandline.values import InvalidError
from strandline.values.extras import missing

if TYPE_CHECKING:
    from strandline.server.flight.sql_engine import SqlEngine

_STATEMENT: Final = "CommandStatementQuery"
_TICKET: Final = "TicketStatementQuery"
_PREPARED: Final = "CommandPreparedStatementQuery"
_INGEST: Final = "CommandStatementIngest"
_CREATE: Final = "CreatePreparedStatement"
_CLOSE: Final = "ClosePreparedStatement"


class SqlAnswers:
    """Answers Flight SQL. It keeps nothing between two calls."""

    ACTIONS: Final = {
        _CREATE: "Prepares a statement.",
        _CLOSE: "Closes a prepared statement; the server keeps nothing of one.",
    }

    def __init__(self, log: Log, settings: ServerSettings, calls: FlightCalls) -> None:
        self._log = log
        self._settings = settings
        self._calls = calls

    def planned(self, caller: Caller, command: bytes) -> tuple[pa.Schema, bytes]:
        """Return the columns of what a command asks for, and the ticket for its rows."""
        asked = opened(command)
        rows = metadata_rows(self._log, caller, asked)
        if rows is not None:
            return rows.schema, command
        prepared = _prepared(asked)
        schema = self._engine().schema(caller, prepared.sql, prepared.values())
        return schema, closed(_TICKET, (1, prepared.handle()))

    def answered(self, caller: Caller, packed: bytes) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the rows of a ticket."""
        asked = opened(packed)
        rows = metadata_rows(self._log, caller, asked)
        if rows is not None:
            return rows.schema, (each for each in rows.to_batches())
        prepared = _prepared(asked)
        found = self._engine().rows(caller, prepared.sql, prepared.values())
        return next(found), found

    def put_scope(self, command: bytes) -> TokenScope:
        """Return the scope that a put needs."""
        return TokenScope.APPEND if opened(command).name == _INGEST else TokenScope.READ

    def put(
        self, caller: Caller, command: bytes, batches: Iterable[pa.RecordBatch]
    ) -> bytes | None:
        """Append to a topic, or bind the parameters of a statement; return the answer."""
        asked = opened(command)
        if asked.name == _INGEST:
            put = TopicPut(self._log, caller, PutCommand(asked.text(2) or ""))
            return message_of((1, together(put.answers(batches)).records))
        if asked.name == _PREPARED:
            return message_of((1, bound(_prepared(asked), list(batches)).handle()))
        raise _unknown(asked)

    def act(self, caller: Caller, action: str, body: bytes) -> bytes | None:
        """Prepare or close a statement; return the answer."""
        if action == _CLOSE:
            return None
        if action != _CREATE:
            raise InvalidError("there is no such action", action=action, known=list(self.ACTIONS))
        asked = opened(body)
        prepared = Prepared(asked.text(1) or "")
        schema, parameters = self._engine().described(caller, prepared.sql)
        return closed(
            "ActionCreatePreparedStatementResult",
            (1, prepared.handle()),
            (2, None if schema is None else schema.serialize().to_pybytes()),
            (3, parameters.serialize().to_pybytes()),
        )

    def _engine(self) -> "SqlEngine":
        try:
            from strandline.server.flight.sql_engine import SqlEngine  # noqa: PLC0415 An extra.
        except ModuleNotFoundError as error:
            raise InvalidError(missing("DuckDB", "server")) from error
        return SqlEngine(self._log, self._settings, self._calls)


def _prepared(asked: SqlMessage) -> Prepared:
    if asked.name == _STATEMENT:
        return Prepared(asked.text(1) or "")
    if asked.name in (_TICKET, _PREPARED):
        return prepared_of(asked.payload(1) or b"")
    raise _unknown(asked)


def _unknown(asked: SqlMessage) -> InvalidError:
    return InvalidError(
        "this server does not have this command: it answers SELECT, and takes batches by "
        "do_put or ingestion",
        command=asked.name,
    )
