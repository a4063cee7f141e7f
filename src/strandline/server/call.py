"""One request: its path, query and body, decoded and checked."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request
from starlette.types import Receive

from strandline.log import AsyncLog, parts_of
from strandline.log.off_loop import in_thread
from strandline.server.caller import Caller
from strandline.server.known_topics import KnownTopics
from strandline.server.media import check_utf8
from strandline.server.problems import RequestError
from strandline.server.resume import Epochs
from strandline.server.settings import ServerSettings
from strandline.values import InvalidError, Topic
from strandline.values.unreadable_json import why_unreadable

if TYPE_CHECKING:
    from strandline.durable_streams import StreamTable
    from strandline.server.at_once import AppendsAtOnce
    from strandline.server.health import ServerMetrics
    from strandline.server.history import MetricHistory
    from strandline.server.members import Members
    from strandline.server.remote_call import StorePort
    from strandline.server.streams import Streams
    from strandline.server.work import Work

P = ParamSpec("P")
T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)

PAGE_BYTES_MAX: Final = "strandline.page_bytes_max"
"""In the scope of a request: the maximal size of its page, if it is less than the setting."""
_LARGE_BYTES: Final = 64 * 1024
_QUERY_BYTES_KEPT: Final = 256


async def by_size(body: bytes, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of work on a body, which is done in a thread if the body is large.

    Work on the loop delays all other requests, but for a small body it is faster than a thread.
    """
    if len(body) > _LARGE_BYTES:
        return await in_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


class Call(msgspec.Struct, frozen=True):
    """A request of an admitted caller, with the log."""

    request: Request
    caller: Caller
    log: AsyncLog
    settings: ServerSettings
    streams: "Streams"
    topics: KnownTopics
    epochs: Epochs
    metrics: "ServerMetrics"
    port: "StorePort"
    work: "Work"
    history: "MetricHistory"
    durable: "StreamTable"
    members: "Members"
    at_once: "AppendsAtOnce"

    def path(self, name: str) -> str:
        """Return a part of the path, decoded."""
        try:
            return unquote(self.request.path_params[name], errors="strict")
        except UnicodeDecodeError as error:
            raise InvalidError("the path is UTF-8", part=name) from error

    def continued(self) -> AbstractContextManager[None]:
        """Return a context in which an append continues the trace of its request."""
        tracing = parts_of(self.log.blocking).tracing
        return nullcontext() if tracing is None else tracing.continuing(self.request.headers)

    @property
    def page_bytes_max(self) -> int:
        """How many bytes of records the answer has at most, unless the first is larger."""
        most: int = self.request.scope.get(PAGE_BYTES_MAX, self.settings.page_bytes_max)
        return most

    @property
    def partition(self) -> int:
        """The number of the partition in the path."""
        text = self.path("partition")
        if text.isascii() and text.isdecimal() and len(text) < 10:  # noqa: PLR2004 - 32 bits.
            return int(text)
        raise InvalidError("a partition is a number from 0", partition=text)

    async def topic(self) -> Topic:
        """Return the topic in the path, if the caller may see it."""
        return await self.caller.topic(self.log, self.path("topic"))

    def query(self, kind: type[StructT]) -> StructT:
        """Return the query as this struct, not to be modified; InvalidError if it does not fit."""
        text: bytes = self.request.scope["query_string"]
        parse = _known_query if len(text) <= _QUERY_BYTES_KEPT else _parsed_query
        found: StructT = parse(kind, text)
        return found

    async def json(self, kind: type[StructT]) -> StructT:
        """Return the body as this struct; an empty body means {}."""
        content_type = self.request.headers.get("content-type", "application/json")
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise RequestError(415, "this takes a body of application/json")
        check_utf8(content_type)
        body = await self.body()
        return await by_size(body, decoded, msgspec.json.Decoder(kind).decode, body or b"{}")

    async def body(self) -> bytes:
        """Return the body, unless it is too large, too slow, or compressed."""
        headers = self.request.headers
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestError(415, "a body is sent as it is, without Content-Encoding")
        most = self.settings.body_bytes_max
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_large(most)
        pieces = _pieces(self.request.receive, most)
        try:
            # A body that arrived with its head is complete, and needs no time limit.
            waited_for = pieces.send(None)
        except StopIteration as ended:
            return cast(bytes, ended.value)
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                return await _WaitingBody(pieces, waited_for)
        except TimeoutError:
            raise RequestError(
                408, "the body did not arrive in time", {"connection": "close"}
            ) from None


async def _pieces(receive: Receive, bytes_max: int) -> bytes:
    """Return the body, which arrives in pieces."""
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the connection was closed within the body")
        piece = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            raise too_large(bytes_max)
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


class _WaitingBody:
    """A body that is waiting for its first piece."""

    def __init__(self, coroutine: Coroutine[Any, Any, bytes], waited_for: object) -> None:
        self._coroutine = coroutine
        self._waited_for = waited_for

    def __await__(self) -> Generator[Any, Any, bytes]:
        try:
            yield self._waited_for
        except BaseException:
            self._coroutine.close()
            raise
        return (yield from self._coroutine.__await__())


def _parsed_query(kind: type[StructT], text: bytes) -> StructT:
    given: dict[str, Any] = {}
    lists = _lists_of(kind)
    try:
        pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        # With replacement characters, different texts could become equal.
        raise InvalidError("the query is UTF-8, percent-encoded") from None
    for name, value in pairs:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidError("this parameter is given twice", parameter=name)
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidError("the query is not as /openapi.json says", reason=str(error)) from None


_known_query: Final[Any] = lru_cache(maxsize=1024)(_parsed_query)


def decoded(decode: Callable[[bytes], StructT], body: bytes) -> StructT:
    """Decode a body; InvalidError if it does not fit."""
    try:
        return decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = why_unreadable(error, body)
        raise InvalidError("this body is not as /openapi.json says", reason=reason) from None


def too_large(bytes_max: int) -> RequestError:
    """Return the error for a body that is too large; the rest of it is not read."""
    return RequestError(
        413, f"a body has at most {bytes_max} bytes, send it in parts", {"connection": "close"}
    )


def _lists_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    found = _LISTS.get(kind)
    if found is None:
        fields = msgspec.structs.fields(kind)
        found = frozenset(each.encode_name for each in fields if each.type == list[str])
        _LISTS[kind] = found
    return found


_LISTS: dict[type[msgspec.Struct], frozenset[str]] = {}
