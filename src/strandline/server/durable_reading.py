"""Durable Streams over HTTP: catching up, and following by long poll or SSE. See design 0118."""

import base64
import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response
from starlette.types import Receive

from strandline.clock import Clock
from strandline.durable_streams import (
    BEGINNING,
    NOW,
    DurableStream,
    StreamPage,
    position_of,
    shown_offset,
)
from strandline.log import parts_of
from strandline.log.off_loop import in_thread
from strandline.server.call import Call
from strandline.server.durable_writing import (
    STREAM_HEADERS,
    STREAM_PATH,
    found_stream,
    place_headers,
)
from strandline.server.endpoint import SSE, endpoint
from strandline.server.etags import is_known
from strandline.server.streams import EventStream
from strandline.server.tokens import TokenScope
from strandline.values import ClosedError, InvalidError, StrandlineError

_CURSOR_S: Final = 20
_CURSOR_EPOCH_S: Final = 1_728_432_000
"""9 October 2024, from which cursors are counted."""
_JITTER_MAX: Final = 180
_EVENTS_BYTES: Final = 256 * 1024
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_CURSOR: Final = re.compile(r"[0-9]{1,15}")


class StreamQuery(msgspec.Struct):
    """What to read of a stream."""

    offset: str | None = None
    live: Literal["long-poll", "sse"] | None = None
    cursor: str | None = None


@endpoint("HEAD", STREAM_PATH, TokenScope.READ, headers=STREAM_HEADERS)
async def head_stream(call: Call) -> Response:
    """Describe a stream in headers: where it ends, and whether it is closed or will end."""
    stream = await found_stream(call)
    settings = stream.settings
    tail, is_closed = await in_thread(lambda: (stream.tail(), stream.is_closed()))
    headers = place_headers(tail, is_closed=is_closed)
    headers |= {"cache-control": "no-store", "content-type": settings.content_type}
    if settings.ttl_s is not None:
        headers["stream-ttl"] = str(settings.ttl_s)
    if settings.expires_at is not None:
        headers["stream-expires-at"] = settings.expires_at
    return Response(None, 200, headers)


@endpoint(
    "GET",
    STREAM_PATH,
    TokenScope.READ,
    query=StreamQuery,
    answers={"*/*": Any},
    statuses={204: "Nothing came in time.", 304: "It is what If-None-Match names."},
    headers=STREAM_HEADERS,
)
async def read_stream(call: Call) -> Response:
    """Read a stream from an offset: `-1` for all messages, `now` for new ones.

    With `live` it waits for messages: `long-poll` for one response, `sse` for events.
    """
    query = call.query(StreamQuery)
    if query.live is not None and query.offset is None:
        raise InvalidError("a live read has an offset, -1 for the beginning")
    stream = await found_stream(call)
    start = await in_thread(_start, stream, query.offset)
    await in_thread(stream.lifetime.touch)
    reader = DurableReader(call, stream, query.cursor)
    if query.live == "sse":
        return reader.events(start)
    if query.live == "long-poll":
        return await reader.long_poll(start, is_now=query.offset == NOW)
    return await reader.catch_up(start, is_now=query.offset == NOW)


def _start(stream: DurableStream, offset: str | None) -> int:
    if offset is None or offset == BEGINNING:
        return stream.beginning()
    return stream.tail() if offset == NOW else position_of(offset)


class DurableReader:
    """One read of a stream."""

    def __init__(self, call: Call, stream: DurableStream, cursor: str | None) -> None:
        self._call = call
        self._stream = stream
        self._asked_cursor = cursor
        self._clock: Clock = parts_of(call.log.blocking).clock

    async def catch_up(self, start: int, *, is_now: bool) -> Response:
        """Return the stored messages."""
        page = await self._read(start)
        if is_now:
            # Return no message, even if one has arrived since.
            page = StreamPage([], start, start, page.is_closed)
        headers = self._headers(page)
        headers["cache-control"] = (
            "no-store" if is_now else "private, max-age=60, stale-while-revalidate=300"
        )
        return self._page(start, page, headers)

    async def long_poll(self, start: int, *, is_now: bool) -> Response:
        """Return stored messages, or new ones within a time; 204 if there are none."""
        page = await self._read(start)
        if not page.messages and not page.is_closed and not self._call.streams.is_draining:
            slot = self._call.streams.take(self._call.caller)
            try:
                settings, receive = self._call.settings, self._call.request.receive
                await self._wait(start, settings.long_poll_s, receive)
                await slot.check()
            finally:
                slot.release()
            await found_stream(self._call)
            page = await self._read(start)
        headers = self._headers(page)
        if not page.is_closed:
            headers["stream-cursor"] = self._cursor()
        if not page.messages:
            return Response(status_code=204, headers={**headers, "cache-control": "no-store"})
        headers["cache-control"] = "no-store" if is_now else "private, max-age=60"
        return self._page(start, page, headers)

    def events(self, start: int) -> Response:
        """Return a stream of events from a position on."""
        call = self._call
        slot = call.streams.take(call.caller)
        answer = EventStream(self._pieces(start), SSE, slot)
        answer.headers["content-type"] = SSE
        answer.headers["cache-control"] = "no-cache, no-store"
        if not self._stream.settings.is_text:
            answer.headers["stream-sse-data-encoding"] = "base64"
        return answer

    async def _pieces(self, start: int) -> AsyncGenerator[bytes, None]:
        streams, deadline = (
            self._call.streams,
            self._clock.monotonic() + self._call.settings.events_s,
        )
        place, is_first = start, True
        # If the stream is deleted meanwhile, end here; the next request gets the reason.
        with contextlib.suppress(StrandlineError):
            while True:
                page = await self._read(place, _EVENTS_BYTES)
                if page.messages:
                    yield self._data(page.messages)
                if page.messages or is_first or page.is_closed:
                    yield self._control(page)
                place, is_first = page.next, False
                left_s = deadline - self._clock.monotonic()
                if page.is_closed or streams.is_draining or left_s <= 0:
                    return
                if page.is_up_to_date:
                    ping_s = self._call.settings.ping_s
                    if not await self._wait(place, min(left_s, ping_s)):
                        yield b": ping\n\n"

    async def _read(self, start: int, bytes_max: int | None = None) -> StreamPage:
        most = self._call.page_bytes_max if bytes_max is None else bytes_max
        records_max = self._call.settings.page_records_max
        return await in_thread(self._stream.read, start, records_max, most)

    async def _wait(self, position: int, timeout_s: float, receive: Receive | None = None) -> bool:
        """Return whether the stream has grown or was closed within this time."""
        log, stream = self._call.log, self._stream
        async with log.watch() as watch:
            await watch.add(stream.topic, 0, position - stream.base)
            ended = self._call.streams.ended_by(watch.wake, receive)
            with ended, contextlib.suppress(ClosedError):
                return bool(await watch.wait(timeout_s))
        return False

    def _headers(self, page: StreamPage) -> dict[str, str]:
        headers = place_headers(page.next, is_closed=page.is_closed)
        if page.is_up_to_date:
            headers["stream-up-to-date"] = "true"
        headers["vary"] = "authorization"
        return headers

    def _page(self, start: int, page: StreamPage, headers: dict[str, str]) -> Response:
        end = ":c" if page.is_closed else ""
        tag = f'"{self._stream.topic.id}:{start}:{page.next}{end}"'
        headers["etag"] = tag
        if is_known(self._call.request, tag):
            return Response(status_code=304, headers=headers)
        headers["content-type"] = self._stream.settings.content_type
        return Response(self._body(page.messages), 200, headers)

    def _body(self, messages: list[bytes]) -> bytes:
        if self._stream.settings.is_json:
            return b"[%b]" % b",".join(messages)
        return b"".join(messages)

    def _data(self, messages: list[bytes]) -> bytes:
        body = self._body(messages)
        if not self._stream.settings.is_text:
            body = base64.b64encode(body)
        # No space after the colon, because readers would treat it as part of the line.
        lines = b"".join(b"data:%b\n" % line for line in _LINE_END.split(body))
        return b"event: data\n%b\n" % lines

    def _control(self, page: StreamPage) -> bytes:
        data: dict[str, object] = {"streamNextOffset": shown_offset(page.next)}
        if page.is_up_to_date:
            data["upToDate"] = True
        if page.is_closed:
            data["streamClosed"] = True
        else:
            data["streamCursor"] = self._cursor()
        return b"event: control\ndata:%b\n\n" % msgspec.json.encode(data)

    def _cursor(self) -> str:
        """Return a cursor that is later than the client's."""
        now = (self._clock.now_us() // 1_000_000 - _CURSOR_EPOCH_S) // _CURSOR_S
        asked = self._asked_cursor
        if asked is None or not _CURSOR.fullmatch(asked) or int(asked) < now:
            return str(now)
        jitter = 1 + int.from_bytes(self._clock.random_bytes(2), "big") % _JITTER_MAX
        return str(int(asked) + jitter)


ENDPOINTS = (head_stream, read_stream)
