"""Limits the number of open streams, and ends each with a last event."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from strandline.server.caller import Caller
from strandline.server.endpoint import NDJSON, SSE
from strandline.server.problems import RequestError
from strandline.server.settings import ServerSettings

RETRY_MS: Final = 1000
"""After how long a client reconnects."""
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


class Streams:
    """Counts the open streams of each caller, and ends them all. For one event loop."""

    def __init__(
        self, settings: ServerSettings, check_still: Callable[[Caller], Awaitable[None]]
    ) -> None:
        self._settings = settings
        self._check_still = check_still
        self._open: Counter[str] = Counter()
        self._enders: set[Callable[[], None]] = set()
        self.is_draining: bool = False

    @property
    def count(self) -> int:
        """How many are open."""
        return self._open.total()

    def take(self, caller: Caller) -> "Slot":
        """Return the right to open one more stream; RequestError if there are too many."""
        if self.is_draining:
            raise RequestError(
                503, "the server is shutting down, connect again", {"retry-after": "1"}
            )
        if self._open[caller.id] >= self._settings.streams_per_token_max:
            raise RequestError(429, "this token has too many streams open", {"retry-after": "5"})
        if self.count >= self._settings.streams_max:
            raise RequestError(503, "the server has too many streams open", {"retry-after": "5"})
        self._open[caller.id] += 1
        return Slot(self._open, caller, self._check_still)

    @contextlib.contextmanager
    def ended_by(self, end: Callable[[], None], receive: Receive | None = None) -> Iterator[None]:
        """Call `end`, on the loop, if the server drains within the block.

        With `receive`, of a request that has arrived whole, also if its client disconnects.
        """
        if self.is_draining:
            end()
        self._enders.add(end)
        disconnected = (
            None if receive is None else asyncio.ensure_future(until_disconnected(receive))
        )
        if disconnected is not None:
            disconnected.add_done_callback(lambda ended: None if ended.cancelled() else end())
        try:
            yield
        finally:
            self._enders.discard(end)
            if disconnected is not None:
                disconnected.cancel()

    def drain(self) -> None:
        """End every stream, and refuse new ones."""
        self.is_draining = True
        for end in tuple(self._enders):
            end()


async def until_disconnected(receive: Receive) -> None:
    """Return once the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Slot:
    """One of the streams that a caller may have open, until it is released."""

    def __init__(
        self,
        counter: Counter[str],
        caller: Caller,
        check_still: Callable[[Caller], Awaitable[None]],
    ) -> None:
        self._counter = counter
        self._caller = caller
        self._check_still = check_still
        self._is_held = True

    async def check(self) -> None:
        """Raise RequestError if the caller's token was revoked or has expired."""
        await self._check_still(self._caller)

    def release(self) -> None:
        """Release it. May be repeated."""
        if self._is_held:
            self._is_held = False
            name = self._caller.id
            self._counter[name] -= 1
            if not self._counter[name]:
                del self._counter[name]


class StreamEvent(msgspec.Struct):
    """An event of a stream."""

    event: str
    data: object
    id: str | None = None

    def encode(self, media: str) -> bytes:
        """Return the event in the form of SSE, or as a line of JSON."""
        if media == NDJSON:
            body: dict[str, object] = {"event": self.event, "data": self.data}
            if self.id is not None:
                body["id"] = self.id
            return msgspec.json.encode(body).translate(_LINE_ENDS) + b"\n"
        # In JSON a line break is only white space.
        data = msgspec.json.encode(self.data).translate(_LINE_ENDS)
        id_line = b"" if self.id is None else b"id: %b\n" % self.id.encode()
        return b"%bevent: %b\ndata: %b\n\n" % (id_line, self.event.encode(), data)


class EventStream(StreamingResponse):
    """An answer that is a stream of events.

    It ends with the caller's token. `BoundedProtocol` disconnects a reader that is too slow. It
    can continue with the id of the last event that it has received.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], media: str, slot: Slot) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(pieces, media_type=media, headers=headers)
        self._pieces = pieces
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See Starlette."""
        try:
            # Only pieces that have begun release what they hold when they are closed.
            first = await anext(self._pieces, b"")
            if scope["method"] == "HEAD":
                await Response(headers=self.headers)(scope, receive, send)
            else:
                self.body_iterator = self._beginning_with(first)
                await super().__call__(scope, receive, send)
        finally:
            self._slot.release()
            await self._pieces.aclose()

    async def _beginning_with(self, first: bytes) -> AsyncGenerator[bytes, None]:
        yield first
        with contextlib.suppress(RequestError):  # The next request gets the reason.
            async for each in self._pieces:
                await self._slot.check()
                yield each


def preamble(media: str) -> bytes:
    """Return the beginning of a stream: after how long to reconnect."""
    return b"retry: %d\n\n" % RETRY_MS if media == SSE else b""
