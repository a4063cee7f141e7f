"""Flight beside the HTTP interface: from its start to its end."""

import socket
import ssl
import threading
from typing import Final

from strandline.io import SystemIo, private_directory
from strandline.locks import start_thread
from strandline.server.app import Application
from strandline.server.flight.answers import FlightAnswers
from strandline.server.flight.front import FlightFront


class FlightServing:
    """Serves the log of an application over Flight, from `start` to `close`."""

    def __init__(
        self, app: Application, listening: socket.socket, tls: tuple[str, str] | None
    ) -> None:
        self._app = app
        self._listening = listening
        # Clients that come before the start wait for it.
        self._listening.listen()
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        #: The address for clients.
        self.url: Final = f"{'grpc+tls' if tls else 'grpc'}://{shown}:{port}"
        self._tls = tls
        self._front: FlightFront | None = None
        self._answers: FlightAnswers | None = None
        self._watch: threading.Thread | None = None

    def start(self) -> None:
        """Begin to answer calls."""
        limits = self._app.settings
        self._front = FlightFront(
            self._listening,
            private_directory(),
            None if self._tls is None else _tls_context(*self._tls),
            # One that is not far too large is refused by its call, with words.
            bytes_max=2 * limits.body_bytes_max,
            connections_max=limits.flight_connections_max,
        )
        location = f"grpc+unix://{self._front.socket_path}"
        self._answers = FlightAnswers(self._app, location, self._front.cut)
        self._watch = threading.Thread(
            target=self._answers.calls.watch, name="strandline-flight-watch", daemon=True
        )
        start_thread(self._watch)
        self._front.start()

    def drain(self) -> None:
        """Take no more, and end the streams that follow; does not block."""
        if self._front is not None and self._answers is not None:
            self._front.stop_listening()
            self._answers.calls.drain()

    def close(self) -> None:
        """Wait a while for calls to end, then abort them, and close."""
        if self._front is None or self._answers is None or self._watch is None:
            self._listening.close()
            return
        self.drain()
        ending = threading.Thread(target=self._answers.shutdown, daemon=True)
        start_thread(ending)
        ending.join(self._app.settings.drain_s)
        self._front.close()
        ending.join()
        self._answers.calls.end()
        self._watch.join()
        _remove(self._front.directory)


def _remove(directory: str) -> None:
    io = SystemIo()
    for name in io.list(directory):
        io.unlink(f"{directory}/{name}")
    io.rmdir(directory)


def _tls_context(certificate: str, private_key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private_key)
    context.set_alpn_protocols(["h2"])
    return context
