"""Open streams: limits their number, and ends each with a last event."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from strandline.server.caller import Caller
from strandline.server.endpoint import NDJSON, SSE
from strandline.server.problems import RequestError
from strandline.server.settings import ServerSettings

RETRY_MS: Final = 1000
"""After how long a client connects again."""
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


class Streams:
    """Counts the open streams of each caller, and ends them all. For one event loop."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
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
            raise RequestError(503, "the server ends, connect again", {"retry-after": "1"})
        if self._open[caller.id] >= self._settings.streams_per_token_max:
            raise RequestError(429, "this token has too many streams open", {"retry-after": "5"})
        if self.count >= self._settings.streams_max:
            raise RequestError(503, "the server has too many streams open", {"retry-after": "5"})
        self._open[caller.id] += 1
        return Slot(self._open, caller.id)

    @contextlib.contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """Have `end` called, on the loop, when the server drains within the block."""
        if self.is_draining:
            end()
        self._enders.add(end)
        try:
            yield
        finally:
            self._enders.discard(end)

    def drain(self) -> None:
        """End every stream, and let none begin."""
        self.is_draining = True
        for end in tuple(self._enders):
            end()


class Slot:
    """One of the streams that a caller may have open, until it is released."""

    def __init__(self, counter: Counter[str], name: str) -> None:
        self._counter = counter
        self._name = name
        self._is_held = True

    def release(self) -> None:
        """Let another stream be opened. May be repeated."""
        if self._is_held:
            self._is_held = False
            self._counter[self._name] -= 1
            if not self._counter[self._name]:
                del self._counter[self._name]


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
        # Within JSON a line end is white space.
        data = msgspec.json.encode(self.data).translate(_LINE_ENDS)
        id_line = b"" if self.id is None else b"id: %b\n" % self.id.encode()
        return b"%bevent: %b\ndata: %b\n\n" % (id_line, self.event.encode(), data)


class EventStream(StreamingResponse):
    """An answer that is a stream of events. A reader that takes too long is cut off.

    It goes on where it was with the id of the last event that it has got.
    """

    def __init__(
        self, pieces: AsyncGenerator[bytes, None], media: str, slot: Slot, slow_reader_s: float
    ) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(pieces, media_type=media, headers=headers)
        self._pieces = pieces
        self._slot = slot
        self._slow_reader_s = slow_reader_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See Starlette."""

        async def timely(message: Message) -> None:
            async with asyncio.timeout(self._slow_reader_s):
                await send(message)

        try:
            # A reader that is too slow, or gone, is no error of the server's.
            with contextlib.suppress(TimeoutError):
                await super().__call__(scope, receive, timely)
        finally:
            self._slot.release()
            await self._pieces.aclose()


def preamble(media: str) -> bytes:
    """Return how a stream begins: with when to connect again, should it break."""
    return b"retry: %d\n\n" % RETRY_MS if media == SSE else b""
