"""One connection: limits on heads and slow readers, and appends that are answered at once."""

import asyncio
import socket
import struct
from typing import Any, Final

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from strandline.server.at_once import WHOLE_REQUEST, AppendsAtOnce
from strandline.server.problems import RequestError, problem_of
from strandline.server.settings import ServerSettings

_JSON_HEAD: Final = b"%b%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n"
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 27\r\n\r\n"
    b"too many connections, retry"
)
HEAD_BYTES_MAX: Final = 64 * 1024
"""The maximal total size of the request line and the headers."""
_READ_BYTES_MIN: Final = 16 * 1024
"""How much of an answer a client has to read within `slow_reader_s`."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection, which is closed if the head of a request is too large or too slow.

    It is aborted if its client does not read what it was answered: closing would wait for that.
    """

    header_timeout_s: Final = 10.0
    slow_reader_s: Final = 20.0
    connections_max: Final = 8192
    at_once: AppendsAtOnce

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._parsed_bytes = 0
        self._is_in_head = True
        #: Whether the parser is between two requests.
        self._is_between = True
        self._whole = b""
        self._answered_at_s = 0.0
        #: Whether an accepted append has no answer yet, and the bytes received meanwhile.
        self._is_pending = False
        self._held = b""
        self._is_ending = False
        #: The headers of every answer, as objects and as encoded bytes.
        self._headers: tuple[object, bytes] = (None, b"")
        self._refusal: RequestError | None = None
        self.url = b""
        self._timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            transport.write(_TOO_MANY)
            transport.close()
        else:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._end()
        self._end_reader_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._time_reader()

    def resume_writing(self) -> None:
        """See asyncio."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._end_reader_timer()

    def _time_reader(self) -> None:
        """Abort the connection unless its client reads some of what waits to be sent."""
        if self._reader_timer is None:
            self._expect_reading(self.transport.get_write_buffer_size())

    def _expect_reading(self, unread: int) -> None:
        def check() -> None:
            left = self.transport.get_write_buffer_size()
            if left > unread - _READ_BYTES_MIN:
                # With this, the kernel keeps none of it either.
                of: Any = self.transport.get_extra_info("socket")
                of.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            else:
                self._expect_reading(left)

        self._reader_timer = self.loop.call_later(self.slow_reader_s, check)

    def on_response_complete(self) -> None:
        """See uvicorn."""
        super().on_response_complete()
        # The last answer may be too small to pause writing.
        if self.transport.is_closing():
            self._time_reader()

    def _end_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._is_pending:
            self._held += data
            if len(self._held) > HEAD_BYTES_MAX:
                self.flow.pause_reading()
            return
        if self._is_idle():
            self._is_pending = True
            if self.at_once.take(data, self._answer_at_once):
                self._end()
                return
            self._is_pending = False
            self._whole = data
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        self._whole = b""
        # A head that arrived in one piece has ended by now, and needs no time limit.
        if self._is_in_head and self._head_bytes:
            self._begin()
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(self._too_large())

    def _is_idle(self) -> bool:
        """Whether a request that arrives now is the only one, and would be handled at once."""
        before: RequestResponseCycle | None = self.cycle
        return (
            self._is_between
            and (before is None or before.response_complete)
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _answer_at_once(self, status: int, answer: Response | bytes) -> None:
        self._is_pending = False
        if self.transport.is_closing():
            return
        if isinstance(answer, bytes):
            head = _JSON_HEAD % (STATUS_LINE[status], self._common_headers(), len(answer))
            self.transport.write(head + answer)
        else:
            lines = [STATUS_LINE[status], self._common_headers()]
            lines += [b"%b: %b\r\n" % each for each in answer.raw_headers]
            self.transport.write(b"".join([*lines, b"\r\n", bytes(answer.body)]))
        if self._is_ending:
            self.transport.close()
            return
        self._answered_at_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._keep_alive_for(self.timeout_keep_alive)
        if self._held:
            held, self._held = self._held, b""
            self.flow.resume_reading()
            self.data_received(held)

    def _common_headers(self) -> bytes:
        of, joined = self._headers
        headers = self.server_state.default_headers
        if of is not headers:
            joined = b"".join([b"%b: %b\r\n" % each for each in headers])
            self._headers = headers, joined
        return joined

    def _keep_alive_for(self, time_s: float) -> None:
        self.timeout_keep_alive_task: asyncio.TimerHandle | None = self.loop.call_later(
            time_s, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless a request was answered at once meanwhile."""
        left_s = self._answered_at_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0 or self._is_pending:
            self._keep_alive_for(max(left_s, 1.0))
        else:
            super().timeout_keep_alive_handler()
            self._time_reader()

    def shutdown(self) -> None:
        """Close the connection after the current answer."""
        if self._is_pending:
            self._is_ending = True
        else:
            super().shutdown()

    def on_message_begin(self) -> None:
        """See httptools."""
        self._is_between = False
        super().on_message_begin()

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
        if self._whole:
            self.scope[WHOLE_REQUEST], self._whole = self._whole, b""  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def _take_host_of(self, url: Any) -> None:
        """Use the host of an absolute URL instead of the header (RFC 9112, 3.2.2)."""
        host = url.host or b""
        named = b"[%b]" % host if b":" in host else host
        if url.port is not None:
            named += b":%d" % url.port
        self.headers[:] = [each for each in self.headers if each[0] != b"host"]
        self.headers.append((b"host", named))

    def on_message_complete(self) -> None:
        """See httptools."""
        self._is_in_head = self._is_between = True
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
        self._time_reader()


def bounded(
    settings: ServerSettings, at_once: AppendsAtOnce, connections_max: int
) -> type[BoundedProtocol]:
    """Return the protocol with the times of these settings, and for these appends."""
    fields = {
        "header_timeout_s": settings.header_timeout_s,
        "slow_reader_s": settings.slow_reader_s,
        "connections_max": connections_max,
        "at_once": at_once,
    }
    return type("TimedProtocol", (BoundedProtocol,), fields)
