"""The bounds of a request's head: its size, and the time that it may take."""

import asyncio
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 64 * 1024
"""How large the request line and the headers may be together."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection, which is closed if the head of a request is too large or too slow."""

    header_timeout_s = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._is_in_head = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._is_in_head:
            self._begin()
            self._head_bytes += len(data)
        super().data_received(data)
        # A body that came with its head has ended the head by now.
        if self._is_in_head and self._head_bytes > HEAD_BYTES_MAX:
            self._refuse("the head of this request is too large")

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._is_in_head = False
        self._end()
        if not self.url.startswith((b"/", b"*")):
            self._take_host_of(httptools.parse_url(self.url))
        super().on_headers_complete()

    def _take_host_of(self, url: Any) -> None:
        """Take the host of a whole URL in the place of the header, as RFC 9112 says (3.2.2)."""
        host = url.host or b""
        named = b"[%b]" % host if b":" in host else host
        if url.port is not None:
            named += b":%d" % url.port
        self.headers[:] = [each for each in self.headers if each[0] != b"host"]
        self.headers.append((b"host", named))

    def on_message_complete(self) -> None:
        """See httptools."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def _begin(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(
                self.header_timeout_s, self._refuse, "the head of this request is too slow"
            )

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, reason: str) -> None:
        self._end()
        if not self.transport.is_closing():
            self.send_400_response(reason)


def bounded(header_timeout_s: float) -> type[BoundedProtocol]:
    """Return the protocol with this time for the head of a request."""
    return type("TimedProtocol", (BoundedProtocol,), {"header_timeout_s": header_timeout_s})
