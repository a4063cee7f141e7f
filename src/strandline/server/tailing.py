"""Following topics over HTTP: their new records, or only the ends of partitions."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from strandline.log import AsyncLog, Hint, Log, Reach, parts_of
from strandline.log.async_reading import AsyncWatch
from strandline.log.draft import size_of
from strandline.log.off_loop import in_thread
from strandline.log.store import still_there
from strandline.server.call import Call
from strandline.server.endpoint import NDJSON, SSE, endpoint
from strandline.server.media import accepted
from strandline.server.places import offset_of
from strandline.server.problems import problem_of
from strandline.server.resume import Epochs, positions_in, resume_token
from strandline.server.streams import EventStream, StreamEvent, preamble
from strandline.server.tokens import TokenScope
from strandline.subscriptions import AsyncSubscription, CaughtUp, Marker
from strandline.values import ClosedError, Epoch, InvalidError, Record, StrandlineError, Topic
from strandline.values.json_forms import record_json
from strandline.values.partitioning import unknown_partition

_FORMS: Final = (SSE, NDJSON)
PARTITIONS_MAX: Final = 64
"""How many partitions one stream follows: each is part of the id of every event."""
_CHUNK_ITEMS: Final = 64
_CHUNK_BYTES: Final = 256 * 1024
_READ_AHEAD: Final = 64
_WATCHED_MAX: Final = 4096


class TailQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to follow."""

    start: str = "latest"
    after: str = ""
    """The id of the last event that was received; the header Last-Event-ID has the same use."""
    partition: list[str] = []
    predicate: str = ""
    durable_only: bool = False


class WatchQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which topics to watch; all that the caller sees if none is named."""

    topic: list[str] = []
    durable_only: bool = False


@endpoint(
    "GET",
    "/v1/topics/{topic}/tail",
    TokenScope.READ,
    query=TailQuery,
    answers={SSE: str, NDJSON: str},
)
async def tail_topic(call: Call) -> Response:
    """Follow a topic: events `record`, `caught_up`, `fell_behind`, `ping`, `error`, `bye`.

    The id of each event has the offset and epoch of every partition. Sent as Last-Event-ID, the
    stream continues there. 410 if that offset was trimmed, 409 if it was lost.
    """
    query, media = call.query(TailQuery), accepted(call.request, _FORMS)
    token = call.request.headers.get("last-event-id") or query.after
    topic = await call.topic()
    starts = await in_thread(_starts, call.log.blocking, topic, query, token)
    slot = call.streams.take(call.caller)
    try:
        subscription: AsyncSubscription[Record | Marker] = await call.log.subscribe(
            topic,
            start=starts,
            where=query.predicate,
            durable_only=query.durable_only,
            markers=True,
            read_ahead=_READ_AHEAD,
        )
    except BaseException:
        slot.release()
        raise
    tail = TopicTail(call, topic, subscription, starts, media)
    return EventStream(tail.pieces(), media, slot)


def _starts(log: Log, topic: Topic, query: TailQuery, token: str) -> dict[int, int]:
    if token:
        positions = positions_in(token)
        if {each.topic_id for each in positions} != {topic.id}:
            raise InvalidError("this resume token is of another topic", topic=topic.name)
        return {each.partition: log.resolve(each) for each in positions}
    count = log.describe_topic(topic).settings.partitions
    chosen = sorted({_partition(each, count) for each in query.partition}) or list(range(count))
    if len(chosen) > PARTITIONS_MAX:
        raise InvalidError(
            f"a stream follows at most {PARTITIONS_MAX} partitions, name them with partition=",
            partitions=len(chosen),
        )
    return {each: offset_of(log, topic, each, query.start) for each in chosen}


def _partition(text: str, count: int) -> int:
    if text.isdecimal() and len(text) < len(str(PARTITIONS_MAX)) + 4 and int(text) < count:
        return int(text)
    raise unknown_partition(text, count)


class TopicTail:
    """One reader of a topic's records."""

    def __init__(
        self,
        call: Call,
        topic: Topic,
        subscription: AsyncSubscription[Record | Marker],
        starts: dict[int, int],
        media: str,
    ) -> None:
        self._log: AsyncLog = call.log
        self._streams = call.streams
        self._ping_s = call.settings.ping_s
        self._topic = topic
        self._subscription = subscription
        self._offsets = dict(starts)
        self._media = media
        self._epochs: Epochs = call.epochs
        self._is_far = is_far(call.log.blocking)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the stream, piece by piece."""
        closing: list[asyncio.Task[None]] = []
        try:
            with self._streams.ended_by(
                lambda: closing.append(asyncio.ensure_future(self._subscription.close()))
            ):
                yield preamble(self._media)
                while True:
                    yield await self._encoded(await self._items())
        except StrandlineError as error:
            yield self._ended_by(error).encode(self._media)
        finally:
            await self._subscription.close()
            for each in closing:
                await each

    async def _items(self) -> list[Record | Marker]:
        """Return the next item, and further ones that are buffered; none after `ping_s`.

        Nothing more is read: for a live reader that would take longer than a second piece.
        """
        first = await self._subscription.next(self._ping_s)
        if first is None:
            return []
        items, size = [first], _size(first)
        while len(items) < _CHUNK_ITEMS and size < _CHUNK_BYTES:
            more = self._subscription.blocking._take_buffered(1)  # noqa: SLF001 - Without a wait.
            if not more:
                break
            items += more
            size += _size(more[0])
        return items

    async def _encoded(self, items: Sequence[Record | Marker]) -> bytes:
        if self._is_far:
            return await in_thread(self._encode, items)
        return self._encode(items)

    def _encode(self, items: Sequence[Record | Marker]) -> bytes:
        if not items:
            # A predicate may have skipped records; a reader that resumes begins after them.
            position = self._subscription.blocking.assignment.position
            self._offsets = {each: position(each, topic=self._topic) for each in self._offsets}
            return StreamEvent("ping", {}, self._id()).encode(self._media)
        return b"".join(self._event(each).encode(self._media) for each in items)

    def _event(self, item: Record | Marker) -> StreamEvent:
        if isinstance(item, Record):
            self._offsets[item.partition] = item.offset + 1
            return StreamEvent("record", record_json(item), self._id())
        if isinstance(item, CaughtUp):
            self._offsets[item.partition] = item.offset
            data: dict[str, Any] = {"partition": item.partition, "offset": item.offset}
            return StreamEvent("caught_up", data, self._id())
        return StreamEvent("fell_behind", {"partition": item.partition, "last": item.last})

    def _id(self) -> str:
        places = {
            number: (offset, self._epoch(number, offset))
            for number, offset in self._offsets.items()
        }
        return resume_token(self._log.id, self._topic, places)

    def _epoch(self, partition: int, offset: int) -> Epoch:
        return self._epochs.before(self._topic, partition, offset)

    def _ended_by(self, error: StrandlineError) -> StreamEvent:
        return last_event(error, is_draining=self._streams.is_draining)


def _size(item: Record | Marker) -> int:
    """Return the approximate size of an item in a stream."""
    return size_of(item) if isinstance(item, Record) else 0


def last_event(error: StrandlineError, *, is_draining: bool) -> StreamEvent:
    """Return the last event of a stream that ends with an error, or at shutdown."""
    if is_draining and isinstance(error, ClosedError):
        return StreamEvent("bye", {"reason": "the server is shutting down, connect again"})
    return StreamEvent("error", msgspec.Raw(bytes(problem_of(error).body)))


def is_far(log: Log) -> bool:
    """Whether each access to the log takes a round trip over a network."""
    return parts_of(log).store.capabilities.reach is Reach.NETWORK


# --- hints ---


@endpoint("GET", "/v1/watch", TokenScope.READ, query=WatchQuery, answers={SSE: str, NDJSON: str})
async def watch_topics(call: Call) -> Response:
    """Follow the ends of partitions: events `end` with topic, partition and end; `ping`, `bye`.

    It has no records; read them as soon as an end has grown.
    """
    query, media = call.query(WatchQuery), accepted(call.request, _FORMS)
    topics = (
        [await call.caller.topic(call.log, each) for each in query.topic]
        if query.topic
        else await call.caller.visible(call.log)
    )
    slot = call.streams.take(call.caller)
    try:
        watch = await call.log.watch(durable_only=query.durable_only)
        await in_thread(_watch_all, call.log.blocking, watch, topics)
    except BaseException:
        slot.release()
        raise
    return EventStream(_hints(call, watch, media), media, slot)


def _watch_all(log: Log, watch: AsyncWatch, topics: Sequence[Topic]) -> None:
    described = list(still_there(topics, log.describe_topic))
    if sum(each.settings.partitions for each in described) > _WATCHED_MAX:
        watch.blocking.close()
        raise InvalidError(f"a stream watches at most {_WATCHED_MAX} partitions, name topics")
    for each in described:
        for number in range(each.settings.partitions):
            watch.blocking.add(each.topic, number, 0)


async def _hints(call: Call, watch: AsyncWatch, media: str) -> AsyncGenerator[bytes, None]:
    streams = call.streams
    try:
        with streams.ended_by(watch.blocking.close):
            yield preamble(media)
            while True:
                hints = await watch.wait(call.settings.ping_s)
                events = [_hint_event(each) for each in hints] or [StreamEvent("ping", {})]
                yield b"".join(each.encode(media) for each in events)
    except StrandlineError as error:
        yield last_event(error, is_draining=streams.is_draining).encode(media)
    finally:
        await watch.close()


def _hint_event(hint: Hint) -> StreamEvent:
    data = {"topic": hint.topic.name, "partition": hint.partition, "end": hint.end}
    return StreamEvent("end", data)


ENDPOINTS = (tail_topic, watch_topics)
