"""From a request to what answers it: a path is matched once, and its headers are read once."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Router
from starlette.types import Receive, Scope, Send

_KNOWN_MAX: Final = 1024
_PATH_CHARACTERS_MAX: Final = 256


class KnownRoutes(Router):
    """Routes requests, and remembers where a path has led."""

    _known: dict[tuple[str, str], tuple[Any, Scope]] | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See Starlette. What no route takes as a whole is left to it."""
        found = self._found(scope) if scope["type"] == "http" else None
        if found is None:
            await super().app(scope, receive, send)
            return
        route, matched = found
        scope.update(matched)
        await route.handle(scope, receive, send)

    def _found(self, scope: Scope) -> tuple[Any, Scope] | None:
        if self._known is None or len(self._known) >= _KNOWN_MAX:
            self._known = {}
        place = scope["method"], scope["path"]
        found = self._known.get(place)
        if found is None:
            for route in self.routes:
                match, matched = route.matches(scope)
                if match is Match.FULL:
                    found = route, matched
                    break
            if found is not None and len(scope["path"]) <= _PATH_CHARACTERS_MAX:
                self._known[place] = found
        return found


class RequestHeaders(Headers):
    """The headers of a request. One that is repeated has its first value."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        self._first: dict[str, str] = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(scope["headers"])
        }

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

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        response = await self._answer(ServerRequest(scope, receive, send))
        await response(scope, receive, send)
