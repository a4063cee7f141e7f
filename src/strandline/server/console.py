"""The console: its files, and the session of its user. See design 0115."""

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from strandline.log.off_loop import in_thread
from strandline.server.admission import check_local_host
from strandline.server.etags import is_known
from strandline.server.problems import RequestError, problem_of
from strandline.server.sessions import cookie_header
from strandline.server.tokens import bearer_of

if TYPE_CHECKING:
    from strandline.server.app import Application

_BODY_MAX: Final = 4096
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Headers that restrict a console page to its own server."""


class StaticFile(NamedTuple):
    """A file of the console."""

    body: bytes
    media: str
    tag: str


class SessionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The request that begins a session without a token."""

    once: str | None = None


def static_files() -> dict[str, StaticFile]:
    """Return every file of the console by its path."""
    found = {}
    for path, each in _walk(files("strandline.server").joinpath("console_files"), ""):
        kind = path.rpartition(".")[2]
        if kind in _TYPES:
            body = each.read_bytes()
            found[path] = StaticFile(body, _TYPES[kind], f'"{hashlib.sha256(body).hexdigest()}"')
    return found


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{above}{each.name}/")
        else:
            yield above + each.name, each


class Console:
    """Serves the paths of the console."""

    def __init__(self, app: "Application") -> None:
        self._app = app
        self._files = static_files()

    def routes(self) -> list[Any]:
        """Return its routes."""
        return [
            Route("/", self._to_console, methods=["GET"]),
            Route("/console", self._to_console, methods=["GET"]),
            Route("/console/session", self._begin, methods=["POST"]),
            Route("/console/session", self._end, methods=["DELETE"]),
            Route("/console/{path:path}", self._file, methods=["GET"]),
        ]

    async def _to_console(self, request: Request) -> Response:
        del request
        return RedirectResponse("/console/", 308, PAGE_HEADERS)

    async def _file(self, request: Request) -> Response:
        try:
            if not self._app.settings.needs_token:
                check_local_host(request)
            found = self._files.get(request.path_params["path"] or "index.html")
            if found is None:
                raise RequestError(404, "there is no such file of the console")
        except RequestError as error:
            return problem_of(error)
        headers = {**PAGE_HEADERS, "etag": found.tag}
        if is_known(request, found.tag):
            return Response(None, 304, headers)
        return Response(found.body, 200, headers, found.media)

    async def _begin(self, request: Request) -> Response:
        try:
            secret = await self._new_session(request)
        except RequestError as error:
            return problem_of(error)
        return _answer(request, secret)

    async def _new_session(self, request: Request) -> str:
        sessions = self._app.sessions
        header = request.headers.get("authorization")
        if header is not None:
            await in_thread(self._app.tokens.refresh)
            return sessions.begin_by_token(request, bearer_of(header) or "")
        given = await _session_body(request)
        if given.once is None:
            raise RequestError(401, "send a token: Authorization: Bearer TOKEN")
        return sessions.begin_by_link(request, given.once)

    async def _end(self, request: Request) -> Response:
        try:
            self._app.sessions.end(request)
        except RequestError as error:
            return problem_of(error)
        return _answer(request, "")


async def _session_body(request: Request) -> SessionBody:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _BODY_MAX:
            raise RequestError(413, f"this has at most {_BODY_MAX} bytes", {"connection": "close"})
    try:
        return msgspec.json.decode(body or b"{}", type=SessionBody)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RequestError(400, f"this body is not {{once: …}}: {error}") from None


def _answer(request: Request, secret: str) -> Response:
    headers = {"set-cookie": cookie_header(request, secret), "cache-control": "no-store"}
    return Response(None, 204, headers)
