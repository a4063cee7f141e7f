"""A log's bytes on NATS JetStream. See design 0111."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from strandline.clock import Clock, SystemClock
from strandline.log.chain import Chain
from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.identities import IdentityState
from strandline.log.loop_thread import LoopOutcome
from strandline.log.ranges import ReadRange, ReadSpan, check_range
from strandline.log.record_batches import record_batches
from strandline.log.store import AppendRequest, PartitionState, Trimmed
from strandline.stores.closing import close_each
from strandline.stores.engine_lanes import EngineLanes
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.frame_following import FrameFollower
from strandline.stores.frame_marks import frame_history, frame_segments
from strandline.stores.jetstream.address import SYSTEM_VARIABLE, parse_address
from strandline.stores.jetstream.claims import JetStreamClaims
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.keyed import KeyedStream, SubjectValue
from strandline.stores.jetstream.lane import JetStreamLane
from strandline.stores.jetstream.opened import capabilities, open_log
from strandline.stores.jetstream.partition import JetStreamPartition
from strandline.stores.jetstream.reading import FrameReader
from strandline.stores.jetstream.streams import LogNames, StoredMessage
from strandline.stores.jetstream.topics import JetStreamTopics
from strandline.stores.jetstream.trimming import begin_at, release
from strandline.stores.jetstream.watching import JetStreamWatches
from strandline.stores.topic_ends import TopicEnd, ends_of
from strandline.values import (
    CorruptError,
    DroppedError,
    Durability,
    Marks,
    Mode,
    Offset,
    Partition,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicSettings,
)
from strandline.values.arguments import check_seconds

_KEY_HEX: Final = 40


class JetStreamStore:
    """Implements Store. A child of a fork cannot use it.

    `mode="write"` creates the log's streams with `replicas` replicas; the other modes need
    an existing log. `patience_s` is how long a call keeps trying while the server does not
    answer. `system_url` names a user of the system account, to ask how the servers sync.
    """

    def __init__(
        self,
        url: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        replicas: int | None = None,
        system_url: str | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        connect_timeout_s: float = 10.0,
        patience_s: float = 30.0,
    ) -> None:
        self.mode: Final = Mode.parse(mode)
        tls = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
        address = parse_address(url, replicas=replicas, **tls)
        self._clock = clock if clock is not None else SystemClock()
        self._connection = NatsConnection(
            address,
            clock=self._clock,
            connect_timeout_s=check_seconds(
                "connect_timeout_s", connect_timeout_s, allows_zero=False
            ),
            patience_s=check_seconds("patience_s", patience_s),
        )
        self.url: Final = address.shown
        self._names = LogNames(address.log)
        self._keyed = KeyedStream(self._connection, self._names.stream)
        self.check_open: Final = self._connection.state.check
        try:
            system = system_url or os.environ.get(SYSTEM_VARIABLE)
            # Made in the caller's thread: a copy injects ids and times there.
            new_id = self._clock.new_id()
            opened = self._connection.run(
                open_log(self._connection, self._names, address.replicas, self.mode, new_id)
            )
            self.capabilities: Final = capabilities(system, self._clock, connect_timeout_s)
        except BaseException:
            self._connection.close()
            raise
        self.id: Final = opened.log_id
        self._is_durable = self.capabilities.durability_max is Durability.DURABLE
        self._topics = JetStreamTopics(self._connection, self._keyed, self._names, opened.replicas)
        self._topics.log_id = self.id
        self._watches = JetStreamWatches(
            self._connection, self._names, self._end_of, self._on_frame
        )
        self.watch: Final = self._watches.open
        self.metrics: Final = self._watches.metrics
        self._claims = JetStreamClaims(self._connection, self._keyed, self._names)
        self.claim: Final = self._claims.take
        self._lanes = EngineLanes(self._new_lane)

    # --- topics ---

    def topics(self) -> Sequence[EngineTopic]:
        return self._connection.run(self._topics.all())

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> EngineTopic | None:
        del fresh
        return self._connection.run(self._topics.find(tenant, name))

    def remembered(self, topic: Topic) -> EngineTopic | None:
        """Return the cached topic, which may have been dropped."""
        return self._topics.known(topic.id)

    def find_topic_id(self, topic_id: UUID) -> EngineTopic | None:
        return self._connection.run(self._topics.find_id(topic_id))

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> EngineTopic:
        topic = Topic(name, self._clock.new_id(), tenant)
        made = EngineTopic(topic, settings, self._clock.now_us())
        return self._connection.run(self._topics.create(made))

    def change_settings(
        self, topic: EngineTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        while True:
            version, present = self._connection.run(self._topics.present(topic))
            # Called here and not on the loop, because it may call the store.
            settings = change(present.settings)
            if self._connection.run(self._topics.store_settings(present, settings, version)):
                return settings

    def drop_topic(self, topic: EngineTopic) -> None:
        self._connection.run(self._topics.drop(topic))
        self._lanes.close_topic(topic)
        self._watches.notify_dropped(ends_of(topic))

    # --- records ---

    def append(
        self,
        topic: EngineTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> LoopOutcome:
        lane = self._lanes.lane(topic, partition)
        return lane.append(request, level, timeout_s, may_wait=may_wait)

    def marks(self, topic: EngineTopic, partition: int) -> Marks:
        return self.state(topic, partition).marks

    def state(self, topic: EngineTopic, partition: int) -> PartitionState:
        found = self._partition(topic, partition)
        return self._connection.run(found.state(is_durable=self._is_durable))

    def read(self, topic: EngineTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        reader, span = self._span(topic, partition, wanted)
        return reader.records(span)

    def follower(self, topic: EngineTopic, partition: int, start: int) -> FrameFollower | None:
        """See `log.parts.follower_of`."""
        found, clock = self._partition(topic, partition), self._connection.clock
        return found.followers.follower(topic, partition, start, found.announced, clock)

    def read_batches(self, topic: EngineTopic, partition: int, wanted: ReadRange) -> RecordBatches:
        reader, span = self._span(topic, partition, wanted)
        kind = topic.settings.value_kind
        return record_batches(kind, Partition(partition), lambda: reader.pages(span))

    def _span(
        self, topic: EngineTopic, partition: int, wanted: ReadRange
    ) -> tuple[FrameReader, ReadSpan]:
        found = self._partition(topic, partition)
        marks, head, announced = self._connection.run(found.ends_for(wanted.start))
        public = marks.public(head, is_durable=self._is_durable)
        stop = check_range(wanted, public, marks.oldest, topic.topic, partition)
        reader = FrameReader(found, head, topic.settings.value_kind, announced)
        return reader, ReadSpan(wanted.start, stop, wanted.bytes_max)

    def history(self, topic: EngineTopic, partition: int, start: int, end: int | None) -> History:
        found = self._partition(topic, partition)
        ends = self._connection.run(found.ends())
        reader = FrameReader(found, ends[1], topic.settings.value_kind)
        chain = self._chain(topic, partition)
        return frame_history(topic, chain, ends, reader, (Partition(partition), start, end))

    def segments(self, topic: EngineTopic, partition: int) -> Sequence[Segment]:
        found, kind = self._partition(topic, partition), topic.settings.value_kind
        return frame_segments(
            lambda: self._connection.run(found.ends()), lambda head: FrameReader(found, head, kind)
        )

    def trim(self, topic: EngineTopic, partition: int, low: int) -> Trimmed:
        lane = self._lanes.lane(topic, partition)
        done = self._connection.run(release(lane.partition, lane.identities, low, low))
        marks = done.marks.public(done.head, is_durable=self._is_durable)
        return Trimmed(marks, is_released=done.is_released)

    def evict(self, topic: EngineTopic, partition: int, before: int) -> Offset:
        lane = self._lanes.lane(topic, partition)
        done = self._connection.run(release(lane.partition, lane.identities, 0, before))
        return Offset(done.marks.oldest)

    def sync(self, topic: EngineTopic, partition: int) -> None:
        """Nothing to do: acknowledged appends are as durable as the servers can make them."""

    def flush(self) -> None:
        """Nothing to do: acknowledged appends are as durable as the servers can make them."""

    def identities(self, topic: EngineTopic, partition: int) -> IdentityState:
        lane = self._lanes.lane(topic, partition)

        async def look() -> IdentityState:
            known = await lane.identities.catch_up(await lane.partition.head())
            known.expire(self._clock.now_us())
            return known.state()

        return self._connection.run(look())

    def begin_at(
        self,
        topic: EngineTopic,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        lane = self._lanes.lane(topic, partition)
        self._connection.run(begin_at(lane.partition, start, anchor, identities))
        lane.identities.forget()

    # --- keys ---

    def keys(self, topic: EngineTopic) -> Mapping[str, bytes]:
        return self._connection.run(self._keys(topic))

    async def _keys(self, topic: EngineTopic) -> Mapping[str, bytes]:
        pattern = self._names.keyed("k", topic.topic.id.hex, "*")
        subjects = await self._keyed.subjects(pattern)
        values = await asyncio.gather(*map(self._keyed.get, subjects))
        pairs = zip(subjects, values, strict=True)
        return dict(_pair(subject, value) for subject, value in pairs if value is not None)

    def get_key(self, topic: EngineTopic, key: str) -> bytes | None:
        subject = self._key_subject(topic, key)
        found = self._connection.run(self._keyed.get(subject))
        return None if found is None else _pair(subject, found)[1]

    def put_key(self, topic: EngineTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        return self._connection.run(self._put_key(topic, key, value, expected))

    async def _put_key(
        self, topic: EngineTopic, key: str, value: bytes, expected: bytes | None
    ) -> bool:
        subject = self._key_subject(topic, key)
        pair = msgspec.msgpack.encode((key, value))
        first = self._partition(topic, 0)
        while True:
            # A dropped topic raises, and is no conflict with another change.
            found, _ = await asyncio.gather(self._keyed.get(subject), first.stored_marks())
            if (None if found is None else _pair(subject, found)[1]) != expected:
                return False
            sequence = 0 if found is None else found.sequence
            if await self._keyed.put(subject, pair, sequence) is not None:
                return True

    def remove_key(self, topic: EngineTopic, key: str) -> bool:
        return self._connection.run(self._keyed.remove(self._key_subject(topic, key))) > 0

    def _key_subject(self, topic: EngineTopic, key: str) -> str:
        # Subjects allow only some characters, and should be short.
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_HEX]
        return self._names.keyed("k", topic.topic.id.hex, digest)

    # --- the whole ---

    def beside(self, name: str) -> str | None:
        del name
        return None

    def size_bytes(self) -> int:
        return self._connection.run(self._size_bytes())

    async def _size_bytes(self) -> int:
        total = count = 0
        pattern = self._names.everything
        while True:
            body: dict[str, Any] = {"offset": count, "subject": pattern}
            answer = await self._connection.api("STREAM.LIST", body)
            streams = answer.get("streams") or ()
            total += sum(int(each["state"]["bytes"]) for each in streams)
            count += len(streams)
            if not streams or count >= int(answer["total"]):
                return total

    def close(self) -> None:
        if self._connection.state.is_inherited:
            return
        steps = (self._connection.close, self._claims.close, self._watches.close)
        close_each((*steps, *self._lanes.closings()))

    # --- inside ---

    def _new_lane(self, topic: EngineTopic, partition: int) -> JetStreamLane:
        own = JetStreamPartition(self._connection, self._keyed, self._names, topic.topic, partition)
        chain = self._chain(topic, partition)
        return JetStreamLane(own, chain, self.capabilities.durability_max)

    def _partition(self, topic: EngineTopic, partition: int) -> JetStreamPartition:
        return self._lanes.lane(topic, partition).partition

    def _chain(self, topic: EngineTopic, partition: int) -> Chain:
        return Chain(self.id, topic.topic.id, partition, topic.settings.value_kind)

    def _on_frame(self, place: TopicEnd, message: StoredMessage | None) -> int | None:
        lane = self._lanes.known(place.topic, place.partition)
        if lane is not None and message is not None:
            return lane.partition.on_frame(message)
        if lane is not None:
            lane.partition.followers.wake()
        return None

    def _end_of(self, place: TopicEnd) -> int | None:
        lane = self._lanes.known(place.topic, place.partition)
        with contextlib.suppress(DroppedError):
            if lane is not None:
                return self._connection.run(lane.partition.head()).next
            partition = JetStreamPartition(
                self._connection, self._keyed, self._names, place.topic, place.partition
            )
            return self._connection.run(partition.head()).next
        return None


def _pair(subject: str, found: SubjectValue) -> tuple[str, bytes]:
    try:
        return msgspec.msgpack.decode(found.value, type=tuple[str, bytes])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "the value of a key cannot be read", file=subject, position=found.sequence
        ) from error
