"""A server from start to shutdown: not ready, streams ended, then no more requests."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from strandline.log import Log
from strandline.server.app import Application
from strandline.server.settings import ServerSettings
from strandline.triggers import Triggers
from strandline.values import InvalidError
from strandline.values.extras import needing_module
from strandline.views import LiveView

with needing_module("what the server needs", "server"):
    import uvicorn

    from strandline.server.protocol import bounded

if TYPE_CHECKING:
    from strandline.server.flight import FlightServing

_log: Final = logging.getLogger("strandline.server")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_BACKLOG: Final = 2048
_KEEP_ALIVE_S: Final = 75
_LOG_FILES: Final = 512
"""How many files stay for the log, and for Flight; with a low limit half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens."""

    host: str = "127.0.0.1"
    port: int = 7007
    """0 means any free port."""
    certificate: str | None = None
    """The path of the TLS certificate, in PEM, with its chain."""
    private_key: str | None = None
    flight_port: int | None = None
    """The port of Arrow Flight; 0 means any free port, None that it is not served."""

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.certificate is not None

    def check(self) -> None:
        """Raise InvalidError for an address that other machines reach without TLS."""
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidError("TLS takes a certificate and its private key, pass both")
        if not self.is_loopback and not self.has_tls:
            raise InvalidError(
                "an address that others can reach needs TLS, pass a certificate and its key, "
                "or listen on 127.0.0.1 behind a proxy",
                host=self.host,
            )
        if self.certificate is not None and self.private_key is not None:
            _check_tls(self.certificate, self.private_key)


def _check_tls(certificate: str, private_key: str) -> None:
    """Raise InvalidError for unusable files, which uvicorn would load too late."""

    def no_passphrase() -> str:
        raise ValueError("the private key has a passphrase, remove it: openssl pkey -in KEY")

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, private_key, no_passphrase)
    except (OSError, ValueError) as error:
        raise InvalidError(
            "the certificate and its private key cannot be used",
            certificate=certificate,
            private_key=private_key,
            reason=str(error),
        ) from error


class RunningServer:
    """A server over an open log, which its owner closes.

    With `for_one`, only the user that got its `console_link` is admitted.
    """

    def __init__(
        self,
        log: Log,
        address: Address,
        settings: ServerSettings | None = None,
        *,
        for_one: bool = False,
        views: Mapping[str, LiveView[Any]] | None = None,
        triggers: Sequence[Triggers] = (),
    ) -> None:
        address.check()
        chosen = settings if settings is not None else ServerSettings()
        if for_one or not address.is_loopback:
            chosen = replace(chosen, needs_token=True)
        self.app: Final = Application(log, chosen, views=views, triggers=triggers)
        if chosen.needs_token and not for_one and not self.app.tokens.list():
            raise InvalidError(
                "every request would be refused, create a token first: strandline token create"
            )
        self._address = address
        self._socket = _bound(address.host, address.port)
        self._flight = self._made_flight()
        self._server = _QuietServer(
            uvicorn.Config(
                self.app,
                http=bounded(chosen, self.app.at_once, _connections_max(chosen.connections_max)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(chosen.drain_s)),
                ssl_certfile=address.certificate,
                ssl_keyfile=address.private_key,
            )
        )

    @property
    def url(self) -> str:
        """Where it can be reached."""
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._address.has_tls else 'http'}://{shown}:{port}"

    @property
    def flight_url(self) -> str | None:
        """Where Arrow Flight can be reached; None if it is not served."""
        return None if self._flight is None else self._flight.url

    def console_link(self) -> str:
        """Return an address of the console that begins one session, once."""
        # The part after # is not sent: no proxy, log or Referer has the secret.
        return f"{self.url}/console/#once={self.app.sessions.new_link()}"

    def run(self, on_ready: Callable[[str], None] | None = None) -> None:
        """Serve until SIGTERM or SIGINT, or until `stop`. `on_ready` gets the URL."""
        self.app.history.start()
        if self._flight is not None:
            self._flight.start()
        try:
            self._server.run_with(self._socket, self._ready(on_ready), self.drain)
        finally:
            if self._flight is not None:
                self._flight.close()
            self.app.history.stop()

    def stop(self) -> None:
        """Shut down as after SIGTERM; from any thread. Before `run`, that ends at once."""
        self._server.request_shutdown()

    def drain(self) -> None:
        """Accept no more requests, and end the streams; on the loop."""
        _notify("STOPPING=1")
        _log.info("shutting down: %d streams get their last event", self.app.streams.count)
        self.app.streams.drain()
        if self._flight is not None:
            self._flight.drain()
        self._server.should_exit = True

    def _made_flight(self) -> "FlightServing | None":
        place = self._address
        if place.flight_port is None:
            return None
        try:
            with needing_module("what the server needs", "server"):
                # DuckDB takes long to import, and only Flight needs it.
                from strandline.server.flight import FlightServing  # noqa: PLC0415
            listening = _bound(place.host, place.flight_port)
        except InvalidError:
            self._socket.close()
            raise
        tls = None
        if place.certificate is not None and place.private_key is not None:
            tls = place.certificate, place.private_key
        return FlightServing(self.app, listening, tls)

    def _ready(self, on_ready: Callable[[str], None] | None) -> Callable[[], None]:
        def ready() -> None:
            _notify("READY=1")
            _log.info("serving at %s", self.url)
            if self.flight_url is not None:
                _log.info("serving Flight at %s", self.flight_url)
            if on_ready is not None:
                on_ready(self.url)

        return ready


class _QuietServer(uvicorn.Server):
    """uvicorn's server, without its own handling of signals."""

    _loop: asyncio.AbstractEventLoop | None = None
    _drain: Callable[[], None] | None = None

    def run_with(
        self, listening: socket.socket, ready: Callable[[], None], drain: Callable[[], None]
    ) -> None:
        """Serve on a socket until `drain` is called."""
        self._drain = drain

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            with self._signals():
                self._loop.call_soon(self._when_started, ready)
                await self._serve([listening])

        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(serve())

    def request_shutdown(self) -> None:
        """Drain on the loop; from any thread."""
        if self._loop is None or self._drain is None:
            self.should_exit = True
        else:
            with contextlib.suppress(RuntimeError):  # The loop has ended already.
                self._loop.call_soon_threadsafe(self._drain)

    def _when_started(self, ready: Callable[[], None]) -> None:
        assert self._loop is not None
        if self.should_exit:
            # Its socket may be closed already.
            return
        if self.started:
            ready()
        else:
            self._loop.call_later(0.005, self._when_started, ready)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        assert self._loop is not None
        loop, drain = self._loop, self._drain
        assert drain is not None
        try:
            for each in _SIGNALS:
                loop.add_signal_handler(each, drain)
        except (ValueError, RuntimeError):
            # Not on the main thread, which alone can handle signals.
            yield
            return
        try:
            yield
        finally:
            for each in _SIGNALS:
                loop.remove_signal_handler(each)


def allow_many_files(settings: ServerSettings) -> None:
    """Raise this process's limit of open files to what the connections need, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections_max + _LOG_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with contextlib.suppress(OSError, ValueError):  # The system may have a lower limit.
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _connections_max(wanted: int) -> int:
    """Return how many connections may be open, so that the log can still open its files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(files // 2, files - _LOG_FILES))


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address; InvalidError if none can be."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidError("there is no such address", host=host, reason=str(error)) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
    except OSError as error:
        listening.close()
        advice = "choose another port or stop the process that uses it"
        if isinstance(error, PermissionError):
            advice = "choose a port above 1023, which needs no privilege"
        raise InvalidError(
            f"the server cannot listen there, {advice}",
            host=host,
            port=port,
            reason=str(error),
        ) from error
    listening.set_inheritable(False)
    return listening


def _notify(state: str) -> None:
    """Notify systemd, if it has asked for that."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    name: Any = "\0" + place[1:] if place.startswith("@") else place
    notifying = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with notifying, contextlib.suppress(OSError):
        notifying.sendto(state.encode(), name)
