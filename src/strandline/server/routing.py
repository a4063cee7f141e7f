"""Routes a request to its endpoint: the path is matched once, and headers are read once."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from strandline.server.problems import RequestError, problem_of

_KNOWN_MAX: Final = 1024
_PATH_CHARACTERS_MAX: Final = 256
_PIECE_BYTES: Final = 256 * 1024


class KnownRoutes:
    """An ASGI application that routes requests, and caches the routes of paths."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._known: dict[tuple[str, str], tuple[Route, Scope]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. An exception is answered with 500, and raised again to be logged."""
        found = self._found(scope)
        if found is None:
            await problem_of(self._no_route(scope))(scope, receive, send)
            return
        route, matched = found
        scope.update(matched)
        sending = Sending(send)
        try:
            await route.app(scope, receive, sending.send)
        except Exception:
            if not sending.has_begun:
                failed = RequestError(500, "the server has failed, see its log")
                await problem_of(failed)(scope, receive, send)
            raise

    def _found(self, scope: Scope) -> tuple[Route, Scope] | None:
        place = scope["method"], scope["path"]
        found = self._known.get(place)
        if found is None:
            for route in self._routes:
                match, matched = route.matches(scope)
                if match is Match.FULL:
                    found = route, matched
                    break
            if found is not None and len(scope["path"]) <= _PATH_CHARACTERS_MAX:
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[place] = found
        return found

    def _no_route(self, scope: Scope) -> RequestError:
        methods = {
            method
            for route in self._routes
            if route.matches(scope)[0] is Match.PARTIAL
            for method in route.methods or ()
        }
        if methods:
            allowed = {"allow": ", ".join(sorted(methods))}
            return RequestError(405, "this path does not support this method", allowed)
        return RequestError(404, "there is no such path, see /openapi.json")


class Sending:
    """Sends an answer in pieces, and knows whether it has begun.

    Each piece waits until the client has read most of those before it. So a slow client is
    noticed, also one with TLS, whose connection buffers a whole write.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun: bool = False

    def send(self, message: Message) -> Awaitable[None]:
        """See ASGI."""
        self.has_begun = True
        if len(message.get("body", b"")) > _PIECE_BYTES:
            return self._send_in_pieces(message)
        return self._send(message)

    async def _send_in_pieces(self, message: Message) -> None:
        body, has_more = message["body"], message.get("more_body", False)
        for start in range(0, len(body), _PIECE_BYTES):
            end = start + _PIECE_BYTES
            rest = {"body": body[start:end], "more_body": has_more or end < len(body)}
            await self._send({**message, **rest})


class RequestHeaders(Headers):
    """The headers of a request. One that is repeated has its first value."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        self._first: dict[str, str] = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(scope["headers"])
        }

    def keys(self) -> list[str]:  # type: ignore[override] # As Headers has it.
        """Return the name of each, once."""
        return list(self._first)

    def getlist(self, key: str) -> list[str]:
        """See Headers."""
        if len(self._first) < len(self.raw):
            return super().getlist(key)
        found = self._first.get(key.lower())
        return [] if found is None else [found]

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()]

    def __contains__(self, key: Any) -> bool:
        return key.lower() in self._first

    def get(self, key: str, default: Any = None) -> Any:
        """See Mapping."""
        return self._first.get(key.lower(), default)


class ServerRequest(Request):
    """A request whose headers are looked up often."""

    @cached_property
    def headers(self) -> Headers:
        """See Starlette."""
        return RequestHeaders(self.scope)


class Answering:
    """An ASGI application that answers requests of one route."""

    def __init__(
        self, answer: Callable[[Request], Awaitable[Response]], sent: Callable[[Scope], None]
    ) -> None:
        self._answer = answer
        #: Called after an answer was sent, or has failed.
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            response = await self._answer(ServerRequest(scope, receive, send))
            await response(scope, receive, send)
        finally:
            self._sent(scope)
