"""Which requests are admitted: by their token, or on loopback by their origin."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from strandline.log.off_loop import in_thread
from strandline.server.caller import LOOPBACK, Caller, caller_of
from strandline.server.problems import RequestError
from strandline.server.sessions import Sessions, is_foreign
from strandline.server.tokens import TokenTable, bearer_of
from strandline.values import UnavailableError

_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_OF_PROXIES: Final = frozenset(
    {"via", "forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"}
)
_OF_PROXIES_BEGIN: Final = ("x-forwarded-", "x-original-forwarded-")
_LOOK_S: Final = 1.0
"""How often a stream looks for a revocation in a log that is not on this machine."""
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="strandline"'}


class Admission:
    """Admits callers.

    A request with a token may do what the token allows; a request with a console session may
    do what its session began with. A request without either may do everything if the
    server listens on loopback only and the request names loopback as its host: requests with
    another host name (DNS rebinding), from pages of another origin or by a proxy are refused.
    """

    def __init__(
        self,
        tokens: TokenTable,
        sessions: Sessions,
        *,
        needs_token: bool,
        is_far: bool,
        monotonic: Callable[[], float],
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._needs_token = needs_token
        #: Whether reading the log takes a round trip over a network.
        self._is_far = is_far
        self._monotonic = monotonic
        self._looked_at_s = 0.0

    async def admit(self, request: Request) -> Caller:
        """Return the caller of the request, or raise RequestError."""
        header = request.headers.get("authorization")
        if header is not None:
            return await self._holder(header)
        if "cookie" in request.headers and (caller := await self._session(request)) is not None:
            return caller
        self._check_open()
        _check_local(request)
        return LOOPBACK

    def admit_call(self, headers: Mapping[str, Sequence[str]]) -> Caller:
        """Return the caller of a call of another protocol than HTTP, or raise RequestError.

        Blocks. Such a call names no host and no origin, and no browser can make one.
        """
        given = headers.get("authorization", ())
        if given:
            self._tokens.refresh()
            return self._known(given[0] if len(given) == 1 else "")
        self._check_open()
        _check_direct(headers)
        return LOOPBACK

    async def check_still(self, caller: Caller) -> None:
        """Raise RequestError if the caller of a stream has lost its token since it began."""
        if self._needs_look(caller):
            await in_thread(self._look)
        self._check_kept(caller)

    def check_call_still(self, caller: Caller) -> None:
        """Do the same for a call of another protocol; blocks."""
        if self._needs_look(caller):
            self._look()
        self._check_kept(caller)

    def _look(self) -> None:
        # Without an answer the tokens read last count: what is sent may be this error.
        with contextlib.suppress(UnavailableError):
            self._tokens.refresh()

    def _needs_look(self, caller: Caller) -> bool:
        """Whether tokens are read again: of a log elsewhere once in a while, for all streams."""
        if caller is LOOPBACK:
            return False
        if not self._is_far:
            return self._tokens.is_stale()
        now_s = self._monotonic()
        is_due = now_s - self._looked_at_s >= _LOOK_S
        if is_due:
            self._looked_at_s = now_s
        return is_due

    def _check_kept(self, caller: Caller) -> None:
        if caller is not LOOPBACK and not self._tokens.has(caller.id):
            raise _invalid_token()

    def _check_open(self) -> None:
        if self._needs_token:
            raise RequestError(401, "send a token: Authorization: Bearer TOKEN", _CHALLENGE)

    async def _holder(self, header: str) -> Caller:
        await self._refresh()
        return self._known(header)

    def _known(self, header: str) -> Caller:
        secret = bearer_of(header)
        token = None if secret is None else self._tokens.find(secret)
        if token is None:
            raise _invalid_token()
        return caller_of(token)

    async def _session(self, request: Request) -> Caller | None:
        await self._refresh()
        return self._sessions.caller(request)

    async def _refresh(self) -> None:
        if self._is_far or self._tokens.is_stale():
            await in_thread(self._tokens.refresh)


def _invalid_token() -> RequestError:
    return RequestError(401, "this token is unknown, revoked or expired", _CHALLENGE)


def check_local_host(request: Request) -> None:
    """Raise 421 unless the request names only loopback as its host.

    Another name may resolve to loopback, too (DNS rebinding).
    """
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or _name_of(hosts[0]) not in _LOCAL_HOSTS:
        raise RequestError(421, "without a token the host is localhost, 127.0.0.1 or [::1]")


def _check_direct(names: Iterable[str]) -> None:
    for name in names:
        if name in _OF_PROXIES or name.startswith(_OF_PROXIES_BEGIN):
            raise RequestError(401, "a request that comes by a proxy needs a token", _CHALLENGE)


def _check_local(request: Request) -> None:
    _check_direct(request.headers)
    check_local_host(request)
    if is_foreign(request):
        raise RequestError(421, "a page of another origin needs a token")


@lru_cache(maxsize=256)
def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
