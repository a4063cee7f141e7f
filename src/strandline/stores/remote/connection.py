"""Connections to a server: calls, repeated if their answer is lost."""

import contextlib
import re
import ssl
import threading
from collections.abc import Iterator
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from strandline.clock import Clock
from strandline.log import wire
from strandline.log.open_state import OpenState
from strandline.log.patience import answer_s as left_answer_s
from strandline.log.patience import patience_s as left_patience_s
from strandline.stores.addresses import tls_context
from strandline.stores.remote.errors import (
    TransportError,
    WireProblem,
    error_of,
    is_ending,
    is_of_proxy,
    problem_in,
)
from strandline.values import InvalidError, UnavailableError
from strandline.values.arguments import check_text

T = TypeVar("T", bound=wire.Message)

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 1.0
_OK: Final = 200
_WAITING_S: Final = 40.0
_TOKEN: Final = re.compile(r"[!-~]+")
# Raised before any byte of the request was sent.
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class ProblemError(Exception):
    """The server has answered with a problem."""

    def __init__(self, problem: WireProblem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class RemoteConnection:
    """Sends the messages of one open log. Any thread may use it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        clock: Clock,
        patience_s: float,
        timeout_s: float,
        tls_ca: str | None = None,
    ) -> None:
        self.url: Final = _checked_url(url)
        self.state: Final = OpenState()
        self.clock = clock
        self.patience_s = patience_s
        self._timeout_s = timeout_s
        self._headers = headers = {"content-type": wire.MSGPACK, "accept": wire.MSGPACK}
        if token is not None:
            if not _TOKEN.fullmatch(check_text("token", token)):
                raise InvalidError("a token is the text that strandline token create has printed")
            headers["authorization"] = f"Bearer {token}"
        self._tls = _tls(self.url, tls_ca)
        self._client = httpx2.Client(
            base_url=f"{self.url}/v1/store/",
            headers=headers,
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=32),
            trust_env=False,
            verify=self._tls,
        )
        self._ended = threading.Event()
        self._idle = threading.Condition()
        self._requests = 0

    def call(self, name: str, message: wire.Message, kind: type[T]) -> T:
        """Return the answer to a repeatable call, sent as often as needed.

        UnavailableError if there is no answer within `patience_s`.
        """
        return self.counted_call(name, message, kind)[0]

    def counted_call(self, name: str, message: wire.Message, kind: type[T]) -> tuple[T, int]:
        """Return the answer, and how often the call may have been executed before."""
        body, repeats = wire.encode(message), 0
        for pause in self.tries():
            try:
                return self.send(name, body, kind), repeats
            except TransportError as error:
                repeats += error.was_sent
                if not self.rest(pause):
                    raise UnavailableError(
                        "the server does not answer, try again later",
                        url=self.url,
                        reason=str(error),
                    ) from error
            except ProblemError as error:
                raise error_of(error.problem, self.url) from None
        raise AssertionError

    def tries(self) -> "Tries":
        """Return the pauses between tries, within `patience_s` and the limit of the call above."""
        return Tries(self.clock, left_patience_s(self.clock, self.patience_s))

    def rest(self, pause_s: float | None) -> bool:
        """Wait before another try; False if there is none. ClosedError once it is closed."""
        self.state.check()
        if pause_s is None:
            return False
        # While closing, running calls are not repeated.
        return not self._ended.wait(pause_s)

    def new_client(self) -> httpx2.AsyncClient:
        """Return a client for an event loop, for requests that wait on the server."""
        return httpx2.AsyncClient(
            base_url=f"{self.url}/v1/store/",
            headers=self._headers,
            timeout=httpx2.Timeout(_WAITING_S, connect=5.0),
            trust_env=False,
            verify=self._tls,
        )

    def send(self, name: str, body: bytes, kind: type[T]) -> T:
        """Send a message once. TransportError, or ProblemError for a problem document."""
        try:
            with self._under_way():
                answer = self._client.post(name, content=body, timeout=self._limits())
        except _NOT_SENT as error:
            _check_certificate(error, self.url)
            raise TransportError(str(error) or type(error).__name__, was_sent=False) from error
        except httpx2.TransportError as error:
            raise TransportError(str(error) or type(error).__name__, was_sent=True) from error
        if answer.status_code == _OK and answer.headers.get("content-type") == wire.MSGPACK:
            try:
                found: T = wire.decode(kind, answer.content)
            except msgspec.MsgspecError as error:
                raise InvalidError(
                    "this server speaks another version, upgrade the older side", reason=str(error)
                ) from error
            return found
        problem = problem_in(answer.content, answer.status_code)
        if is_ending(problem):
            raise TransportError(problem.detail, was_sent=False)
        if is_of_proxy(problem):
            raise TransportError(f"status {problem.status} of a proxy", was_sent=True)
        raise ProblemError(problem)

    def _limits(self) -> httpx2.Timeout:
        answer_s = left_answer_s(self.clock, self._timeout_s)
        connect_s = left_patience_s(self.clock, min(self._timeout_s, 5.0))
        return httpx2.Timeout(answer_s, connect=connect_s)

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        """Make `close` wait for the block."""
        with self._idle:
            self.state.check()
            self._requests += 1
        try:
            yield
        finally:
            with self._idle:
                self._requests -= 1
                self._idle.notify_all()

    def end_tries(self) -> None:
        """Stop retrying: send everything only once from now on."""
        self._ended.set()

    def close(self) -> None:
        """Close it, after running requests."""
        self._ended.set()
        with self._idle:
            self.state.close()
            while self._requests:
                self._idle.wait()
        self._client.close()


class Tries:
    """Iterates over growing pauses between tries; the last is None."""

    def __init__(self, clock: Clock, patience_s: float) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + patience_s
        self._pause_s = _FIRST_WAIT_S
        self._left_s = patience_s
        self._is_over = False

    def __iter__(self) -> "Tries":
        return self

    def __next__(self) -> float | None:
        if self._is_over:
            raise StopIteration
        pause_s = self._pause_s
        # Pauses count, too: a clock that stands still must not make it endless.
        self._left_s -= pause_s
        self._pause_s = min(2 * pause_s, _LONGEST_WAIT_S)
        if self._left_s <= 0 or self._clock.monotonic() >= self._deadline:
            self._is_over = True
            return None
        return pause_s


def _tls(url: str, ca: str | None) -> ssl.SSLContext:
    if url.startswith("https:"):
        return tls_context(ca)
    if ca is not None:
        raise InvalidError("tls_ca is for a server at https:", url=url)
    # A context without authorities, which is never used: loading the system's takes long.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _check_certificate(error: BaseException, url: str) -> None:
    """Raise InvalidError if the server's certificate is not trusted."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise InvalidError(
                "the server's certificate is not trusted, check the URL, or pass the certificate"
                " of its authority as tls_ca=",
                url=url,
                reason=cause.verify_message,
            ) from error
        cause = cause.__cause__ or cause.__context__


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidError("this is not a URL of a server", url=url, reason=str(error)) from error
    if parts.username or parts.password or parts.query or parts.fragment or not host:
        raise InvalidError(
            "use http://HOST:PORT or https://HOST for a server, and pass its token as token=",
            url=url,
        )
    return url.rstrip("/")
