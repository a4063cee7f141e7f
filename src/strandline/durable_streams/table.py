"""The streams of a log: creates, finds, appends and deletes. For one event loop."""

import asyncio
import contextlib
from collections import OrderedDict
from typing import Final, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary

from msgspec.structs import replace

from strandline.clock import Clock
from strandline.durable_streams.offsets import position_of
from strandline.durable_streams.stream import DurableStream
from strandline.durable_streams.stream_settings import StreamSettings, settings_of
from strandline.durable_streams.writers import AppendMark, SeenProducer, WriterDecision
from strandline.log import AppendTerms, AsyncLog, Log, parts_of
from strandline.log.off_loop import in_thread
from strandline.log.topics import unknown_topic
from strandline.values import ConflictError, InvalidError, StrandlineError, Tenant, Topic

_KEPT_MAX: Final = 10_000
_SWEEP_S: Final = 60.0


class StreamOutcome(NamedTuple):
    """The outcome of an append."""

    decision: WriterDecision
    tail: int
    is_closed: bool
    producer: SeenProducer | None
    """The progress of the producer, if the append has a known one."""


class Made(NamedTuple):
    """The outcome of a request to create a stream."""

    stream: DurableStream
    is_new: bool
    tail: int
    is_closed: bool


class NotSameError(Exception):
    """A stream of this name exists with other settings, or is kept for its forks."""


class StreamTable:
    """The streams of one log."""

    def __init__(self, log: AsyncLog) -> None:
        self._log = log
        self._clock: Clock = parts_of(log.blocking).clock
        self._known: OrderedDict[UUID, DurableStream] = OrderedDict()
        self._turns: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()
        #: Streams are created and removed one at a time.
        self._making = asyncio.Lock()
        self._swept_at = float("-inf")

    async def open(self, topic: Topic) -> DurableStream:
        """Return the stream of a topic, also if it was deleted or is not completely created.

        InvalidError, as for an unknown topic, once it has expired.
        """
        stream = self._known.get(topic.id)
        if stream is None:
            stream = await in_thread(self._load, topic)
            self._known[topic.id] = stream
            while len(self._known) > _KEPT_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(topic.id)
        if await in_thread(stream.lifetime.has_ended):
            async with self._making:
                await in_thread(self._end, stream)
            if stream.topic.id not in self._known:
                raise unknown_topic(topic.name, ())
        if not stream.is_made:
            raise unknown_topic(topic.name, ())
        return stream

    async def append(
        self, stream: DurableStream, messages: list[bytes], mark: AppendMark, **terms: object
    ) -> StreamOutcome:
        """Append messages atomically; return that, or that it is a repeat, or why it is refused."""
        turn = self._turns.setdefault(stream.topic.id, asyncio.Lock())
        values, keys = stream.values(messages, mark)
        asked = mark if messages else AppendMark(mark.producer, mark.stream_seq, mark.closes, True)
        async with turn:
            while True:
                state = await in_thread(stream.state)
                # Read before the decision: an append in between makes this one fail.
                end = state.end
                decision = state.decide(asked)
                if decision is not WriterDecision.NEW:
                    break
                given: AppendTerms = {"partition": 0, "expected_offset": end, **terms}  # type: ignore[typeddict-item] # Of the caller's.
                try:
                    await self._log.append_many(stream.topic, values, keys=keys, **given)
                except ConflictError as error:
                    if "end" not in error.fields:
                        raise
                    # Another process was first.
                    continue
                state = await in_thread(stream.state)
                break
        producer = None if mark.producer is None else state.producers.get(mark.producer.name)
        return StreamOutcome(decision, stream.base + state.tail, state.is_closed, producer)

    async def make(
        self,
        name: str,
        tenant: Tenant | None,
        asked: StreamSettings,
        messages: list[bytes],
        *,
        source: DurableStream | None,
        closes: bool,
    ) -> Made:
        """Return the stream of this name, created if necessary; NotSameError if it differs.

        With a source it is a fork of that, which begins at `asked.fork`.
        """
        await self._sweep_sometimes()
        async with self._making:
            found = await in_thread(self._find, name, tenant)
            if found is not None:
                return await in_thread(_same, found, asked, closes=closes)
            if source is not None:
                asked, inherited = await in_thread(forked, source, asked)
                messages = [*inherited, *messages]
            return await self._make(name, tenant, asked, messages, closes=closes)

    async def delete(self, stream: DurableStream) -> None:
        """Remove a stream, or keep it only for its forks."""
        async with self._making:
            await in_thread(self._remove, stream)

    # --- in threads ---

    async def _make(
        self,
        name: str,
        tenant: Tenant | None,
        asked: StreamSettings,
        messages: list[bytes],
        *,
        closes: bool,
    ) -> Made:
        if messages or closes:
            asked = replace(asked, has_beginning=True)
        topic = await in_thread(self._create, name, tenant, asked)
        stream = await in_thread(self._load, topic)
        self._known[topic.id] = stream
        if messages or closes:
            try:
                await self.append(stream, messages, AppendMark(closes=closes))
            except StrandlineError:
                await in_thread(self._remove, stream)
                raise
        await in_thread(stream.lifetime.touch)
        return Made(stream, True, await in_thread(stream.tail), closes)

    def _create(self, name: str, tenant: Tenant | None, asked: StreamSettings) -> Topic:
        log = self._blocking
        if asked.fork is not None:
            source = self._by_id(UUID(asked.fork.topic_id), asked.fork.name, tenant)
            if source is not None:
                source.keys.add_fork(name)
        try:
            return log.create_topic(
                name, tenant=tenant, value_kind=asked.value_kind, metadata=asked.metadata()
            )
        except ConflictError:
            # Another process was first.
            raise NotSameError from None

    def _find(self, name: str, tenant: Tenant | None) -> DurableStream | None:
        """Return the stream of this name; an expired or incomplete one is removed."""
        try:
            topic = self._blocking.topic(name, tenant=tenant)
        except InvalidError:
            return None
        stream = self._known.get(topic.id) or self._load(topic)
        if stream.lifetime.has_ended():
            self._end(stream)
            return None if not stream.lifetime.is_deleted else stream
        if not stream.is_made:
            self._remove(stream)
            return None
        return stream

    def _load(self, topic: Topic) -> DurableStream:
        log = self._blocking
        found = log.describe_topic(topic)
        settings = settings_of(found.settings)
        source = None
        if (fork := settings.fork) is not None:
            source = self._by_id(UUID(fork.topic_id), fork.name, topic.tenant)
        return DurableStream(log, found, settings, source)

    def _by_id(self, topic_id: UUID, name: str, tenant: Tenant | None) -> DurableStream | None:
        known = self._known.get(topic_id)
        if known is not None:
            return known
        with contextlib.suppress(InvalidError):
            topic = self._blocking.topic(name, tenant=tenant)
            if topic.id == topic_id:
                return self._load(topic)
        return None

    def _end(self, stream: DurableStream) -> None:
        """Remove an expired stream; if it has forks, it is kept for them."""
        if not stream.lifetime.is_deleted:
            self._remove(stream)

    def _remove(self, stream: DurableStream) -> None:
        if self._has_forks(stream):
            stream.lifetime.delete()
            return
        with contextlib.suppress(InvalidError):
            self._blocking.drop_topic(stream.topic)
        self._known.pop(stream.topic.id, None)
        source = stream.source
        if source is not None:
            source.keys.remove_fork(stream.topic.name)
            if source.lifetime.is_deleted:
                self._remove(source)

    def _has_forks(self, stream: DurableStream) -> bool:
        for name in stream.keys.forks():
            with contextlib.suppress(InvalidError):
                topic = self._blocking.topic(name, tenant=stream.topic.tenant)
                fork = settings_of(self._blocking.describe_topic(topic).settings).fork
                if fork is not None and fork.topic_id == str(stream.topic.id):
                    return True
        return False

    async def _sweep_sometimes(self) -> None:
        """Remove expired streams without a request for them."""
        now = self._clock.monotonic()
        if now - self._swept_at >= _SWEEP_S:
            self._swept_at = now
            async with self._making:
                await in_thread(self._sweep)

    def _sweep(self) -> None:
        log = self._blocking
        for tenant in (None, *log.tenants()):
            for topic in log.topics(tenant=tenant):
                # A topic that is not a stream, or was dropped meanwhile, does not expire.
                with contextlib.suppress(InvalidError):
                    if settings_of(log.describe_topic(topic).settings).may_end:
                        stream = self._known.get(topic.id) or self._load(topic)
                        if stream.lifetime.has_ended():
                            self._end(stream)

    @property
    def _blocking(self) -> Log:
        return self._log.blocking


def forked(source: DurableStream, asked: StreamSettings) -> tuple[StreamSettings, list[bytes]]:
    """Return the settings of a fork, and its part of a message that is cut in two.

    NotSameError for a source that is kept only for its forks, or has another type.
    """
    fork = asked.fork
    assert fork is not None
    if source.lifetime.is_deleted or source.settings.media != asked.media:
        raise NotSameError
    tail = source.tail()
    base = tail if fork.offset is None else position_of(fork.offset)
    if base > tail:
        raise InvalidError("a stream is forked before its end", position=base, tail=tail)
    inherited: list[bytes] = []
    if fork.sub_offset and source.settings.is_json:
        base += fork.sub_offset
        if base > tail:
            raise _no_sub_offset(fork.sub_offset)
    elif fork.sub_offset:
        message = source.message(base) or b""
        if fork.sub_offset > len(message):
            raise _no_sub_offset(fork.sub_offset)
        if fork.sub_offset == len(message):
            base += 1
        else:
            inherited = [message[: fork.sub_offset]]
    return replace(asked, fork=replace(fork, base=base)), inherited


def _no_sub_offset(sub_offset: int) -> InvalidError:
    return InvalidError("there is not so much after Stream-Fork-Offset", sub_offset=sub_offset)


def _same(found: DurableStream, asked: StreamSettings, *, closes: bool) -> Made:
    if found.lifetime.is_deleted or not found.settings.is_same(asked):
        raise NotSameError
    if found.is_closed() != closes:
        raise NotSameError
    found.lifetime.touch()
    return Made(found, False, found.tail(), closes)
