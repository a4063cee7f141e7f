"""The calls of Arrow Flight: decode, call one room, encode."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyarrow import flight

from strandline.log import Log, parts_of
from strandline.server.app import Application
from strandline.server.caller import Caller
from strandline.server.flight.calls import FlightCalls
from strandline.server.flight.following import FollowedTopic
from strandline.server.flight.publishing import SentBatches, TopicPut, together
from strandline.server.flight.reading import asked_rows, declared_schema, fixed_ticket
from strandline.server.flight.sql_answers import SqlAnswers
from strandline.server.flight.sql_messages import is_sql_message
from strandline.server.flight.statuses import in_flight_terms
from strandline.server.flight.tickets import PutCommand, ReadTicket, described, ticket_of
from strandline.server.tokens import TokenScope

if TYPE_CHECKING:

    class ArrowFlightServer:
        """`pyarrow.flight.FlightServerBase`, with types, as far as it is used here."""

        def __init__(self, location: str, *, middleware: dict[str, Any]) -> None: ...
        def shutdown(self) -> None:
            """Accept no more calls, and return once the running ones have ended."""

    class ArrowMiddleware:
        """`pyarrow.flight.ServerMiddleware`."""

    class ArrowMiddlewareFactory:
        """`pyarrow.flight.ServerMiddlewareFactory`."""

else:
    ArrowFlightServer = flight.FlightServerBase
    ArrowMiddleware = flight.ServerMiddleware
    ArrowMiddlewareFactory = flight.ServerMiddlewareFactory

_CALLER: Final = "caller"
_PIECE_BYTES: Final = 4 * 1024 * 1024


def _pieces(chunk: Any) -> Iterator[Any]:
    """Yield a chunk in parts that are not too large to be sent at once."""
    if not isinstance(chunk, pa.RecordBatch) or chunk.nbytes <= _PIECE_BYTES:
        yield chunk
        return
    rows = max(1, chunk.num_rows * _PIECE_BYTES // chunk.nbytes)
    for start in range(0, chunk.num_rows, rows):
        yield chunk.slice(start, rows)


class CallerMiddleware(ArrowMiddleware):
    """The caller of a call."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


class AdmittingCallers(ArrowMiddlewareFactory):
    """Admits callers as the HTTP interface does."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def start_call(self, info: Any, headers: Any) -> CallerMiddleware:
        """Return the caller, before any part of the call is read."""
        del info
        with in_flight_terms():
            return CallerMiddleware(self._app.admission.admit_call(headers))


class FlightAnswers(ArrowFlightServer):
    """Answers calls over one log, as soon as it is created."""

    def __init__(
        self,
        app: Application,
        location: str,
        cut: Callable[[str], None],
    ) -> None:
        self._app = app
        self._log: Log = app.log.blocking
        self._cut = cut
        self.calls: Final = FlightCalls(app.settings, parts_of(self._log).clock)
        self._sql = SqlAnswers(self._log, app.settings, self.calls)
        super().__init__(location, middleware={_CALLER: AdmittingCallers(app)})

    # --- topics and schemas ---

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """Yield each topic that the caller sees; `criteria` is a prefix of names."""
        with in_flight_terms(), self._one(context, TokenScope.READ) as caller:
            prefix = criteria.decode(errors="replace")
            found = [each for each in caller.all_of(self._log) if each.name.startswith(prefix)]
            shown = [
                self._flight(
                    flight.FlightDescriptor.for_path(each.name),
                    declared_schema(self._log, each),
                    msgspec.json.encode(ReadTicket(each.name)),
                )
                for each in found
            ]
        return iter(shown)

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Return the columns of the requested rows, and a ticket for them."""
        with in_flight_terms(), self._one(context, TokenScope.READ) as caller:
            command = descriptor.command or b""
            if is_sql_message(command):
                schema, ticket = self._sql.planned(caller, command)
                return self._flight(descriptor, schema, ticket)
            asked = described(descriptor, ReadTicket)
            found = asked_rows(self._log, caller, asked)
            ticket = msgspec.json.encode(fixed_ticket(asked, found))
            return self._flight(descriptor, found.schema, ticket, found.count)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """Return the columns of the requested rows."""
        found = self._schema(context, descriptor)
        if isinstance(found, Exception):
            raise found
        return flight.SchemaResult(found)

    # Arrow sends the traceback of this one call: it must not show a path of this machine.
    get_schema.__code__ = get_schema.__code__.replace(co_filename="strandline")

    def _schema(self, context: Any, descriptor: Any) -> pa.Schema | Exception:
        try:
            return self.get_flight_info(context, descriptor).schema
        except flight.FlightError as error:
            return RuntimeError(str(error))

    def _flight(self, descriptor: Any, schema: pa.Schema, ticket: bytes, count: int = -1) -> Any:
        # Without a location, the rows are fetched where this was.
        endpoint = flight.FlightEndpoint(flight.Ticket(ticket), [])
        return flight.FlightInfo(schema, descriptor, [endpoint], count, -1)

    # --- rows ---

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Stream the rows of a ticket."""
        with in_flight_terms():
            caller = self._caller(context, TokenScope.READ)
            packed: bytes = ticket.ticket
            if is_sql_message(packed):
                return self._streamed(context, caller, *self._sql.answered(caller, packed))
            asked = ticket_of(packed, ReadTicket)
            found = asked_rows(self._log, caller, asked)
            if not asked.follow:
                return self._streamed(context, caller, found.schema, found.batches())
            followed = FollowedTopic(self._log, found, asked, self._app.epochs)
            chunks = followed.chunks(self.calls, self._app.settings.ping_s, context.is_cancelled)
            return self._streamed(context, caller, found.schema, chunks)

    def _streamed(
        self, context: Any, caller: Caller, schema: pa.Schema, chunks: Iterator[Any]
    ) -> Any:
        peer = context.peer()
        return flight.GeneratorStream(schema, self._bounded(caller, peer, chunks))

    def _bounded(self, caller: Caller, peer: str, chunks: Iterator[Any]) -> Iterator[Any]:
        """Yield chunks one at a time; a reader that takes none for too long is disconnected."""
        slow_s = self._app.settings.slow_reader_s

        def cut() -> None:
            self._cut(peer)

        with in_flight_terms(), contextlib.closing(chunks), self.calls.one_of(caller):  # type: ignore[type-var] # A generator.
            for chunk in chunks:
                self._app.admission.check_call_still(caller)
                for piece in _pieces(chunk):
                    with self.calls.within(slow_s, cut):
                        yield piece

    # --- appending ---

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Append the batches of a stream."""
        with in_flight_terms():
            command = descriptor.command or b""
            if is_sql_message(command):
                scope = self._sql.put_scope(command)
                with self._one(context, scope) as caller:
                    answer = self._sql.put(caller, command, self._batches(context, caller, reader))
                    if answer is not None:
                        writer.write(pa.py_buffer(answer))
                return
            asked = described(descriptor, PutCommand)
            with self._one(context, TokenScope.APPEND) as caller:
                put = TopicPut(self._log, caller, asked)
                answers = put.answers(self._batches(context, caller, reader))
                if asked.receipts == "batch":
                    for each in answers:
                        with self._patient(context):
                            writer.write(pa.py_buffer(msgspec.json.encode(each)))
                else:
                    writer.write(pa.py_buffer(msgspec.json.encode(together(answers))))

    def _batches(self, context: Any, caller: Caller, reader: Any) -> Iterator[pa.RecordBatch]:
        peer = context.peer()
        for each in SentBatches(reader, self.calls, self._app.settings, lambda: self._cut(peer)):
            self._app.admission.check_call_still(caller)
            yield each

    @contextlib.contextmanager
    def _patient(self, context: Any) -> Iterator[None]:
        peer = context.peer()
        with self.calls.within(self._app.settings.slow_reader_s, lambda: self._cut(peer)):
            yield

    # --- statements ---

    def list_actions(self, context: Any) -> list[Any]:
        """Return the actions of Flight SQL."""
        del context
        return [flight.ActionType(name, text) for name, text in self._sql.ACTIONS.items()]

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Prepare a statement, or close one."""
        with in_flight_terms(), self._one(context, TokenScope.READ) as caller:
            answer = self._sql.act(caller, action.type, action.body.to_pybytes())
            return iter([] if answer is None else [flight.Result(pa.py_buffer(answer))])

    # --- callers ---

    @contextlib.contextmanager
    def _one(self, context: Any, scope: TokenScope) -> Iterator[Caller]:
        caller = self._caller(context, scope)
        with self.calls.one_of(caller):
            yield caller

    def _caller(self, context: Any, scope: TokenScope) -> Caller:
        caller: Caller = context.get_middleware(_CALLER).caller
        caller.check(scope)
        return caller
