"""Sessions of the console: a cookie represents a token, or the user that started the server.

See design 0115.
"""

from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from strandline.clock import Clock
from strandline.server.caller import LOOPBACK, Caller, caller_of
from strandline.server.problems import RequestError
from strandline.server.tokens import TokenTable, digest_of

SESSION_S: Final = 12 * 3600
"""How long a session lasts."""
_SESSIONS_MAX: Final = 1000
_LINKS_MAX: Final = 100
_SECRET_BYTES: Final = 32
_SAFE: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Session:
    """The session of one browser."""

    host: str
    """The header Host of the request that began it; it is not valid for any other host."""
    ends_at_us: int
    token_digest: str | None
    """The id of its token; None for the user that started the server."""


class Sessions:
    """The sessions of one server, only in memory, as digests. For one event loop.

    Any page can make a browser send a request with our cookie. So a request with a session is
    admitted only if its headers show that a page of this server has sent it.
    """

    def __init__(self, tokens: TokenTable, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._links: dict[str, None] = {}
        self._open: dict[str, Session] = {}

    def new_link(self) -> str:
        """Return a secret that begins one session, once."""
        secret = self._clock.random_bytes(_SECRET_BYTES).hex()
        self._links[digest_of(secret)] = None
        while len(self._links) > _LINKS_MAX:
            del self._links[next(iter(self._links))]
        return secret

    def begin_by_link(self, request: Request, secret: str) -> str:
        """Return the cookie of a new session; 401 if the secret was used, or is not valid."""
        check_own_page(request)
        digest = digest_of(secret)
        if digest not in self._links:
            raise RequestError(401, "this link was used already, start the console again")
        del self._links[digest]
        return self._begin(request, None)

    def begin_by_token(self, request: Request, secret: str) -> str:
        """Return the cookie of a new session; 401 if the token is not valid."""
        check_own_page(request)
        if self._tokens.find(secret) is None:
            raise RequestError(401, "this token is unknown, revoked or expired")
        return self._begin(request, digest_of(secret))

    def caller(self, request: Request) -> Caller | None:
        """Return the caller with the session of a request; None without one, 421 if another page
        has sent it."""
        secret = _cookie_of(request)
        session = None if secret is None else self._open.get(digest_of(secret))
        if session is None or session.ends_at_us <= self._clock.now_us():
            return None
        if session.host != request.headers.get("host"):
            raise RequestError(421, "this session is for another host name of the server")
        check_own_page(request)
        if session.token_digest is None:
            return LOOPBACK
        token = self._tokens.valid(session.token_digest)
        return None if token is None else caller_of(token)

    def end(self, request: Request) -> None:
        """End the session of a request, if it has one."""
        check_own_page(request)
        secret = _cookie_of(request)
        if secret is not None:
            self._open.pop(digest_of(secret), None)

    def _begin(self, request: Request, token_digest: str | None) -> str:
        now_us = self._clock.now_us()
        self._open = {key: each for key, each in self._open.items() if each.ends_at_us > now_us}
        while len(self._open) >= _SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        secret = self._clock.random_bytes(_SECRET_BYTES).hex()
        host = request.headers.get("host", "")
        self._open[digest_of(secret)] = Session(host, now_us + SESSION_S * 1_000_000, token_digest)
        return secret


def check_own_page(request: Request) -> None:
    """Raise 421 unless, by its headers, a page of this server has sent the request."""
    if "origin" not in request.headers and request.method not in _SAFE:
        raise RequestError(421, "a request with a session has the header Origin")
    if is_foreign(request):
        raise RequestError(421, "a page of another origin has no session")


def is_foreign(request: Request) -> bool:
    """Whether, by its headers, a page of another origin has sent the request."""
    headers = request.headers
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc != headers.get("host")
    except ValueError:
        return True


def cookie_header(request: Request, secret: str) -> str:
    """Return the header Set-Cookie of a session; without a secret the one that removes it."""
    lasting = f"Max-Age={SESSION_S if secret else 0}"
    is_safe = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    return f"{_cookie_name(request)}={secret}; Path=/; {lasting}; HttpOnly; SameSite=Strict" + (
        "; Secure" if is_safe else ""
    )


def _cookie_of(request: Request) -> str | None:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(_cookie_name(request))
    except CookieError:
        return None
    return None if found is None or not found.value else found.value


def _cookie_name(request: Request) -> str:
    # Cookies are not bound to a port: servers of one host would replace each other's.
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:
        port = None
    return f"strandline_{port or 'console'}"
