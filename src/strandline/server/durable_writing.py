"""Durable Streams over HTTP: creating, appending, closing and deleting. See design 0118."""

from typing import Any, Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from strandline.durable_streams import (
    SAFE_INT_MAX,
    AppendMark,
    DurableStream,
    NotSameError,
    ProducerMark,
    StreamOutcome,
    WriterDecision,
    asked_fork,
    asked_settings,
    is_true,
    media_of,
    messages_of,
    shown_offset,
    topic_name_of,
)
from strandline.log.off_loop import in_thread
from strandline.server.call import Call, by_size
from strandline.server.endpoint import JSON, OCTETS, endpoint
from strandline.server.problems import RequestError
from strandline.server.tokens import TokenScope
from strandline.values import DurabilityName, InvalidError

STREAM_PATH: Final = "/v1/stream/{stream}"
_PREFIX: Final = "/v1/stream/"
_BODY: Final[dict[str, Any]] = {OCTETS: bytes, JSON: Any, "text/plain": str}
_SHOWN: Final = (
    "Stream-Next-Offset",
    "Stream-Cursor",
    "Stream-Up-To-Date",
    "Stream-Closed",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-SSE-Data-Encoding",
    "Producer-Epoch",
    "Producer-Seq",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
    "ETag",
    "Location",
)
STREAM_HEADERS: Final = {
    # A stream may be of HTML, and is of the console's origin: a browser runs no script of it.
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "cross-origin",
    "access-control-allow-origin": "*",
    "access-control-expose-headers": ", ".join(_SHOWN),
}
"""The headers of every response: for pages of other origins with a token, and against scripts."""
_PREFLIGHT: Final = {
    **STREAM_HEADERS,
    "access-control-allow-methods": "GET, HEAD, PUT, POST, DELETE",
    "access-control-allow-headers": (
        "Authorization, Content-Type, If-None-Match, Last-Event-ID, Producer-Id, Producer-Epoch, "
        "Producer-Seq, Stream-Seq, Stream-TTL, Stream-Expires-At, Stream-Closed, "
        "Stream-Forked-From, Stream-Fork-Offset, Stream-Fork-Sub-Offset"
    ),
    "access-control-max-age": "600",
}
_CLOSED: Final = {"stream-closed": "true"}


class StreamAppendQuery(msgspec.Struct):
    """How to append."""

    durability: DurabilityName | None = None


async def allow_other_origins(request: Request) -> Response:
    """Answer a CORS preflight request of a browser."""
    del request
    return Response(status_code=204, headers=_PREFLIGHT)


@endpoint(
    "PUT",
    STREAM_PATH,
    TokenScope.ADMIN,
    optional_body=_BODY,
    status=201,
    statuses={200: "It exists, with the same settings."},
    headers=STREAM_HEADERS,
)
async def put_stream(call: Call) -> Response:
    """Create a stream, with messages or without, or as a fork of another.

    Content-Type is that of the stream. Stream-TTL or Stream-Expires-At ends it; Stream-Closed
    closes it at once. Stream-Forked-From, with Stream-Fork-Offset and Stream-Fork-Sub-Offset,
    makes it a fork. 409 if it exists with other settings.
    """
    name = call.caller.check_name(topic_name_of(call.path("stream")))
    headers = call.request.headers
    source, fork = None, None
    if "stream-forked-from" in headers:
        call.caller.check(TokenScope.READ)
        source = await _source(call, headers["stream-forked-from"])
        fork = asked_fork(source.topic, headers)
    elif {"stream-fork-offset", "stream-fork-sub-offset"} & set(headers):
        raise InvalidError("a fork names its source in Stream-Forked-From")
    asked = asked_settings(headers, None if source is None else source.settings, fork)
    body = await call.body()
    messages = await by_size(body, _first_messages, body, is_json=asked.is_json)
    if messages:
        await _check_may_append(call, name)
    try:
        made = await call.durable.make(
            name,
            call.caller.tenant,
            asked,
            messages,
            source=source,
            closes=is_true(headers.get("stream-closed")),
        )
    except NotSameError:
        raise RequestError(
            409,
            "there is a stream with other settings, or the source has another type or is deleted",
        ) from None
    answer = place_headers(made.tail, is_closed=made.is_closed)
    if made.is_new:
        answer["location"] = str(call.request.url.replace(query=None))
    content_type = {"content-type": made.stream.settings.content_type}
    return Response(None, 201 if made.is_new else 200, {**answer, **content_type})


@endpoint(
    "POST",
    STREAM_PATH,
    TokenScope.APPEND,
    query=StreamAppendQuery,
    optional_body=_BODY,
    status=204,
    statuses={200: "A new append of a producer."},
    headers=STREAM_HEADERS,
)
async def append_to_stream(call: Call) -> Response:
    """Append to a stream, close it with Stream-Closed, or both at once.

    With Producer-Id, Producer-Epoch and Producer-Seq: 200 if it is new, 204 if it was appended
    before, 403 for an earlier epoch, 409 if an append before it is missing. With
    Stream-Seq: 409 unless it is greater than the last. 409 also for a stream that is closed.
    """
    durability = call.query(StreamAppendQuery).durability
    stream = await found_stream(call)
    await in_thread(stream.lifetime.touch)
    body = await call.body()
    mark = _mark(call, is_empty=not body)
    if not body and not mark.closes:
        raise InvalidError("there is nothing to append, and Stream-Closed is not true")
    if body and not await in_thread(stream.is_closed):
        _check_type(call, stream)
    messages = (
        await by_size(body, messages_of, body, is_json=stream.settings.is_json) if body else []
    )
    terms = {} if durability is None else {"durability": durability}
    with call.continued():
        done = await call.durable.append(stream, messages, mark, **terms)
    return _answer(done, mark, has_body=bool(body))


@endpoint("DELETE", STREAM_PATH, TokenScope.ADMIN, status=204, headers=STREAM_HEADERS)
async def delete_stream(call: Call) -> Response:
    """Delete a stream; one that has forks is kept for them, and is 410 from then on."""
    stream = await found_stream(call)
    await call.durable.delete(stream)
    call.topics.forget(stream.topic)
    return Response(status_code=204)


async def found_stream(call: Call) -> DurableStream:
    """Return the stream in the path; 404 if the caller sees none, 410 if it was deleted."""
    name = topic_name_of(call.path("stream"))
    stream = await call.durable.open(await call.caller.topic(call.log, name))
    if await in_thread(lambda: stream.lifetime.is_deleted):
        raise RequestError(410, "this stream was deleted, and is kept for its forks alone")
    return stream


def place_headers(position: int, *, is_closed: bool) -> dict[str, str]:
    """Return the headers with the end of a stream, and whether it is closed."""
    return {"stream-next-offset": shown_offset(position), **(_CLOSED if is_closed else {})}


async def _source(call: Call, path: str) -> DurableStream:
    if not path.startswith(_PREFIX):
        raise InvalidError(f"Stream-Forked-From is a path under {_PREFIX}", value=path)
    try:
        name = topic_name_of(unquote(path.removeprefix(_PREFIX), errors="strict"))
    except UnicodeDecodeError as error:
        raise InvalidError("the path is UTF-8", part="Stream-Forked-From") from error
    return await call.durable.open(await call.caller.topic(call.log, name))


async def _check_may_append(call: Call, name: str) -> None:
    """Raise 403 if the caller may not append, unless the stream exists already."""
    if TokenScope.APPEND not in call.caller.scopes:
        visible = await call.caller.visible(call.log)
        if name not in {each.name for each in visible}:
            call.caller.check(TokenScope.APPEND)


def _first_messages(body: bytes, *, is_json: bool) -> list[bytes]:
    return messages_of(body, is_json=is_json, may_be_empty=True) if body else []


def _check_type(call: Call, stream: DurableStream) -> None:
    given = call.request.headers.get("content-type")
    if given is None:
        raise InvalidError("a body has a Content-Type, that of the stream")
    if media_of(given) != stream.settings.media:
        raise RequestError(409, f"this stream takes {stream.settings.media}")


def _mark(call: Call, *, is_empty: bool) -> AppendMark:
    headers = call.request.headers
    given = [headers.get(f"producer-{each}") for each in ("id", "epoch", "seq")]
    producer = None
    if given != [None, None, None]:
        name, epoch, seq = given
        if name is None or epoch is None or seq is None:
            raise InvalidError("Producer-Id, Producer-Epoch and Producer-Seq come together")
        producer = ProducerMark(name, _safe("Producer-Epoch", epoch), _safe("Producer-Seq", seq))
    closes = is_true(headers.get("stream-closed"))
    return AppendMark(producer, headers.get("stream-seq"), closes, is_empty).check()


def _safe(name: str, text: str) -> int:
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(SAFE_INT_MAX))
    if is_short and int(text) <= SAFE_INT_MAX:
        return int(text)
    raise InvalidError(f"{name} is a whole number from 0 to 2**53 - 1", value=text)


def _answer(done: StreamOutcome, mark: AppendMark, *, has_body: bool) -> Response:
    headers = place_headers(done.tail, is_closed=done.is_closed)
    decision, known, given = done.decision, done.producer, mark.producer
    if decision in (WriterDecision.NEW, WriterDecision.REPEAT):
        if given is not None and known is not None:
            headers |= {"producer-epoch": str(given.epoch), "producer-seq": str(known.seq)}
        is_new = decision is WriterDecision.NEW and given is not None and has_body
        return Response(status_code=200 if is_new else 204, headers=headers)
    if decision is WriterDecision.FENCED and known is not None:
        fence = {"producer-epoch": str(known.epoch)}
        raise RequestError(403, "a later epoch of this producer has appended", fence)
    if decision is WriterDecision.GAP and given is not None:
        missing = {
            "producer-expected-seq": str(0 if known is None else known.seq + 1),
            "producer-received-seq": str(given.seq),
        }
        raise RequestError(409, "an append of this producer is missing before this one", missing)
    if decision is WriterDecision.NEW_EPOCH:
        raise InvalidError("a new epoch of a producer begins with Producer-Seq 0")
    if decision is WriterDecision.SEQ:
        raise RequestError(409, "Stream-Seq is not greater than the last one", headers)
    raise RequestError(409, "this stream is closed", headers)


ENDPOINTS = (put_stream, append_to_stream, delete_stream)
