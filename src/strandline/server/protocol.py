"""The bounds of a request's head: its size, and the time that it may take."""

import asyncio
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from strandline.server.problems import RequestError, problem_of

HEAD_BYTES_MAX: Final = 64 * 1024
"""How large the request line and the headers may be together."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection, which is closed if the head of a request is too large or too slow."""

    header_timeout_s: Final = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._parsed_bytes = 0
        self._is_in_head = True
        self._refusal: RequestError | None = None
        self.url = b""
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
            self._head_bytes += len(data)
        super().data_received(data)
        # A head that came as a whole has ended by now, and needs no time limit.
        if self._is_in_head and self._head_bytes:
            self._begin()
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(self._too_large())

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        super().on_url(url)
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        super().on_header(name, value)
        self._measure(len(name) + len(value) + len(": \r\n"))

    def _measure(self, size: int) -> None:
        """Raise once the head is too large, which ends the parser; `send_400_response` answers."""
        self._parsed_bytes += size
        if self._parsed_bytes > HEAD_BYTES_MAX:
            self._refusal = self._too_large()
            raise self._refusal

    def _too_large(self) -> RequestError:
        if len(self.url) > HEAD_BYTES_MAX // 2:
            return RequestError(414, f"URL and headers have at most {HEAD_BYTES_MAX} bytes")
        return RequestError(431, f"URL and headers have at most {HEAD_BYTES_MAX} bytes")

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
        self._head_bytes = self._parsed_bytes = 0
        super().on_message_complete()

    def _begin(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(
                self.header_timeout_s,
                self._refuse,
                RequestError(408, "the head of the request did not arrive in time"),
            )

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, refusal: RequestError) -> None:
        self._end()
        self._refusal = refusal
        self.send_400_response(refusal.detail)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that reaches no application, and close the connection."""
        del msg
        if self.transport.is_closing():
            return
        refusal = self._refusal or RequestError(400, "this is no valid HTTP request")
        answer = problem_of(refusal)
        lines = [STATUS_LINE[refusal.status], b"connection: close\r\n"]
        lines += [b"%b: %b\r\n" % each for each in answer.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(answer.body)]))
        self.transport.close()


def bounded(header_timeout_s: float) -> type[BoundedProtocol]:
    """Return the protocol with this time for the head of a request."""
    return type("TimedProtocol", (BoundedProtocol,), {"header_timeout_s": header_timeout_s})
