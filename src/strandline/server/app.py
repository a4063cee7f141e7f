"""The application: all endpoints over one log."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import strandline
from strandline.clock import Clock
from strandline.durable_streams import StreamTable
from strandline.log import AsyncLog, Log, parts_of
from strandline.server import (
    appending,
    consumers,
    dead_letters,
    durable_reading,
    durable_writing,
    fetching,
    health,
    history,
    partitions,
    reading,
    remote_appending,
    remote_keys,
    remote_schemas,
    remote_selecting,
    remote_store,
    schemas,
    tailing,
    topics,
    work,
)
from strandline.server.admission import Admission
from strandline.server.at_once import AppendsAtOnce
from strandline.server.call import Call
from strandline.server.caller import RequestsUnderWay
from strandline.server.console import Console
from strandline.server.durable_writing import STREAM_PATH, allow_other_origins
from strandline.server.endpoint import Endpoint, endpoint, json_answer
from strandline.server.health import ServerMetrics
from strandline.server.history import MetricHistory
from strandline.server.known_topics import KnownTopics
from strandline.server.members import Members
from strandline.server.openapi import openapi_document
from strandline.server.page_room import PageRoom
from strandline.server.problems import REQUEST_PROBLEMS, RequestError, problem_of
from strandline.server.remote_call import StorePort
from strandline.server.resume import Epochs
from strandline.server.routing import Answering, KnownRoutes
from strandline.server.sessions import Sessions
from strandline.server.settings import ServerSettings
from strandline.server.streams import Streams
from strandline.server.tailing import is_far
from strandline.server.tokens import TokenTable
from strandline.server.work import Work
from strandline.triggers import Triggers
from strandline.values import InvalidError, StrandlineError
from strandline.values import errors as error_tree
from strandline.views import LiveView

_NAMED_ERRORS: Final = {
    name: kind
    for name, kind in vars(error_tree).items()
    if isinstance(kind, type) and issubclass(kind, StrandlineError)
}


@endpoint("GET", "/errors/{name}", None, answers={"text/plain": str})
async def get_error(call: Call) -> Response:
    """Explain an error: the page at the `type` of a problem document."""
    name = call.path("name")
    if name in REQUEST_PROBLEMS:
        return PlainTextResponse(REQUEST_PROBLEMS[name])
    kind = _NAMED_ERRORS.get(name) or getattr(strandline, name, None)
    if not isinstance(kind, type) or not issubclass(kind, StrandlineError):
        raise RequestError(404, "there is no such error")
    return PlainTextResponse((kind.__doc__ or "").strip())


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *topics.ENDPOINTS,
    *appending.ENDPOINTS,
    *reading.ENDPOINTS,
    *tailing.ENDPOINTS,
    *partitions.ENDPOINTS,
    *schemas.ENDPOINTS,
    *consumers.ENDPOINTS,
    *fetching.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *durable_reading.ENDPOINTS,
    *durable_writing.ENDPOINTS,
    *work.ENDPOINTS,
    *health.ENDPOINTS,
    *history.ENDPOINTS,
    *remote_store.ENDPOINTS,
    *remote_appending.ENDPOINTS,
    *remote_keys.ENDPOINTS,
    *remote_schemas.ENDPOINTS,
    *remote_selecting.ENDPOINTS,
    get_error,
)
"""Every endpoint of the HTTP interface."""


class Application:
    """Answers requests over one open log, which its owner closes. An ASGI application.

    It also shows `views` and `triggers` of the same process; their owner closes them.
    """

    def __init__(
        self,
        log: Log,
        settings: ServerSettings | None = None,
        *,
        endpoints: Sequence[Endpoint] = ENDPOINTS,
        views: Mapping[str, LiveView[Any]] | None = None,
        triggers: Sequence[Triggers] = (),
    ) -> None:
        self.settings: Final = settings if settings is not None else ServerSettings()
        self.log: Final = AsyncLog(log)
        self.tokens: Final = TokenTable(log)
        self._clock: Clock = parts_of(log).clock
        self.sessions: Final = Sessions(self.tokens, self._clock)
        self.admission: Final = Admission(
            self.tokens,
            self.sessions,
            needs_token=self.settings.needs_token,
            is_far=is_far(log),
            monotonic=self._clock.monotonic,
        )
        self.streams: Final = Streams(self.settings, self.admission.check_still)
        self.metrics: Final = ServerMetrics(log, self.streams)
        self.history: Final = MetricHistory(log, self.metrics, self.streams)
        self.work: Final = Work(views or {}, triggers)
        self._durable = StreamTable(self.log)
        self._members = Members(log)
        self._under_way = RequestsUnderWay(self.settings.requests_per_token_max)
        self.at_once: Final = AppendsAtOnce(
            self.log,
            self.tokens,
            self._under_way,
            metrics=self.metrics.of(appending.append_records.name),
            clock=self._clock,
            body_bytes_max=self.settings.body_bytes_max,
        )
        self._topics = KnownTopics()
        self.epochs: Final = Epochs(log)
        self._port = StorePort(log)
        self._room = PageRoom(self.settings.page_bytes_max)
        document = openapi_document(endpoints)

        async def get_openapi(request: Request) -> Response:
            del request
            return json_answer(document)

        self._app: ASGIApp = KnownRoutes(
            [
                *(
                    Route(_slashed(one.path), self._answering(one), methods=[one.method])
                    for one in endpoints
                ),
                Route(_slashed(STREAM_PATH), allow_other_origins, methods=["OPTIONS"]),
                Route("/openapi.json", get_openapi, methods=["GET"]),
                *Console(self).routes(),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. Paths are matched before they are decoded, so that %2F is part of a name."""
        if scope["type"] != "http":
            raise InvalidError("this application answers HTTP alone", scope=scope["type"])
        if b"%" in scope.get("raw_path", b""):
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self._app(scope, receive, send)

    async def admit(self, request: Request) -> Call:
        """Return the call of an admitted request; RequestError if it is not admitted."""
        return self._call(request, await self.admission.admit(request))

    def _call(self, request: Request, caller: Any) -> Call:
        return Call(
            request,
            caller,
            self.log,
            self.settings,
            self.streams,
            self._topics,
            self.epochs,
            self.metrics,
            self._port,
            self.work,
            self.history,
            self._durable,
            self._members,
            self.at_once,
        )

    def _answering(self, one: Endpoint) -> Answering:
        note = self.metrics.of(one.name).note
        monotonic = self._clock.monotonic

        async def answer(request: Request) -> Response:
            begun = monotonic()
            response = await self._room.answer(
                request.scope, lambda: self._respond(one, request), repeats=one.repeats
            )
            if one.headers:
                response.headers.update(one.headers)
            note(response.status_code, monotonic() - begun)
            return response

        return Answering(answer, self._room.release)

    async def _respond(self, one: Endpoint, request: Request) -> Response:
        try:
            if one.scope is None:
                return await one.answer(self._call(request, None))
            call = await self.admit(request)
            call.caller.check(one.scope)
            self._under_way.enter(call.caller)
            try:
                return await one.answer(call)
            finally:
                self._under_way.leave(call.caller)
        except (StrandlineError, RequestError) as error:
            return problem_of(error)


def _slashed(path: str) -> str:
    """Return the route of a path: that of a stream may have slashes."""
    return path.replace("{stream}", "{stream:path}")
