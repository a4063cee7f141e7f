"""The port that clients of Flight reach: TLS, and bounds that Arrow's server does not have.

It hands the bytes of each connection to Arrow's server, over a socket that only this user
reaches, and cuts a connection whose client sends too much, or takes too little.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final

from strandline.io import SystemIo
from strandline.locks import start_thread
from strandline.server.flight.message_bounds import ClientFrames, RefusedMessageError

_log: Final = logging.getLogger("strandline.server")
_BUFFER_BYTES: Final = 256 * 1024
_WAITING_BYTES: Final = 1024 * 1024
_BACKLOG: Final = 256


class FlightFront:
    """Listens, in its own thread, from `start` to `close`."""

    def __init__(
        self,
        listening: socket.socket,
        directory: str,
        tls: ssl.SSLContext | None,
        *,
        bytes_max: int,
        connections_max: int,
    ) -> None:
        self.listening = listening
        self.directory = directory
        self.bytes_max = bytes_max
        self.connections_max = connections_max
        self.connections: dict[str, ClientConnection] = {}
        self._tls = tls
        self._numbers = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="strandline-flight", daemon=True)

    @property
    def socket_path(self) -> str:
        """The address of Arrow's server."""
        return f"{self.directory}/server"

    def start(self) -> None:
        """Begin to listen."""
        start_thread(self._thread)
        self._is_ready.wait()

    def cut(self, peer: str) -> None:
        """End the connection that Arrow's server knows as `peer`; from any thread."""
        self._soon(lambda: self._cut(peer))

    def stop_listening(self) -> None:
        """Stop accepting connections; from any thread."""
        self._soon(self._server_close)

    def close(self) -> None:
        """End all connections, and the thread."""
        self._soon(self._end)
        if self._thread.ident is not None:
            self._thread.join()
        self.listening.close()

    def next_name(self) -> str:
        """Return where the next connection to Arrow's server comes from."""
        self._numbers += 1
        return f"{self.directory}/{self._numbers}"

    def _soon(self, action: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # The loop has ended already.
                self._loop.call_soon_threadsafe(action)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._server = await self._loop.create_server(
            lambda: ClientConnection(self), sock=self.listening, ssl=self._tls, backlog=_BACKLOG
        )
        self._is_ready.set()
        await self._ended.wait()
        self._server_close()
        for each in list(self.connections.values()):
            each.abort()

    def _server_close(self) -> None:
        self._server.close()

    def _end(self) -> None:
        self._ended.set()

    def _cut(self, peer: str) -> None:
        found = self.connections.get(peer.removeprefix("unix:"))
        if found is not None:
            _log.warning("cut off a Flight client that took or sent nothing for too long")
            found.abort()


class ClientConnection(asyncio.BufferedProtocol):
    """The client's end of a connection."""

    def __init__(self, front: FlightFront) -> None:
        self._front = front
        self._frames = ClientFrames(front.bytes_max)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._transport: Any = None
        self._server_end: ServerConnection | None = None
        self._early = bytearray()
        self._name = ""
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = transport
        if len(self._front.connections) >= self._front.connections_max:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(_WAITING_BYTES)
        self._name = self._front.next_name()
        self._front.connections[self._name] = self
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        connecting = socket.socket(socket.AF_UNIX)
        try:
            connecting.setblocking(False)
            # By this name, Arrow's server knows which connection a call is of.
            connecting.bind(self._name)
            await loop.sock_connect(connecting, self._front.socket_path)
            _, made = await loop.create_unix_connection(
                lambda: ServerConnection(self), sock=connecting
            )
        except OSError:
            connecting.close()
            self.abort()
            return
        self._server_end = made
        if self._transport.is_closing():
            made.abort()
        else:
            made.write(bytes(self._early))
            self._early.clear()
            self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> bytearray:
        """See asyncio."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio."""
        data = bytes(memoryview(self._buffer)[:nbytes])
        try:
            self._frames.feed(data)
        except RefusedMessageError as error:
            _log.warning("cut off a Flight client: %s", error)
            self.abort()
            return
        if self._server_end is None:
            # Not every loop lets a connection begin paused.
            self._early += data
            self._transport.pause_reading()
        else:
            self._server_end.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        del exc
        self.abort()

    def write(self, data: bytes) -> None:
        """Send to the client."""
        self._transport.write(data)

    def pause_writing(self) -> None:
        """See asyncio."""
        if self._server_end is not None:
            self._server_end.pause()

    def resume_writing(self) -> None:
        """See asyncio."""
        if self._server_end is not None:
            self._server_end.resume()

    def pause(self) -> None:
        """Pause reading from the client."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading from the client."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def finish(self) -> None:
        """Close the connection after all written bytes are sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close both ends. May be repeated."""
        self._transport.abort()
        if self._server_end is not None:
            self._server_end.abort()
        if self._front.connections.pop(self._name, None) is not None:
            with contextlib.suppress(OSError):
                SystemIo().unlink(self._name)


class ServerConnection(asyncio.BufferedProtocol):
    """The end of a connection at Arrow's server."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._buffer = bytearray(_BUFFER_BYTES)
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = transport
        self._transport.set_write_buffer_limits(_WAITING_BYTES)

    def get_buffer(self, sizehint: int) -> bytearray:
        """See asyncio."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio."""
        self._client.write(bytes(memoryview(self._buffer)[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        del exc
        self._client.finish()

    def write(self, data: bytes) -> None:
        """Send to Arrow's server."""
        self._transport.write(data)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._client.pause()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._client.resume()

    def pause(self) -> None:
        """Pause reading from the server."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading from the server."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """End it."""
        self._transport.abort()


def _loop_factory() -> Any:
    try:
        import uvloop  # noqa: PLC0415 Not on every system.
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
