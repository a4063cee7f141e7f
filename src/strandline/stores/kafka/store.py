"""A log's bytes on Kafka. See design 0114."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

import msgspec

from strandline.clock import Clock, SystemClock
from strandline.log.chain import Chain
from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.identities import IdentityState
from strandline.log.loop_thread import LoopOutcome
from strandline.log.ranges import ReadRange, ReadSpan, check_range
from strandline.log.record_batches import record_batches, source_batches
from strandline.log.sources import check_has_no_holes
from strandline.log.store import AppendRequest, PartitionState, Trimmed, dropped
from strandline.stores.closing import close_each
from strandline.stores.engine_lanes import EngineLanes
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.frame_following import FrameFollower
from strandline.stores.frame_marks import frame_history, frame_segments
from strandline.stores.kafka.address import parse_address
from strandline.stores.kafka.changes import KeyCondition, KeyedEntry, KeyPut
from strandline.stores.kafka.claims import KafkaClaims
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.errors import GoneError
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.kafka.lane import KafkaLane
from strandline.stores.kafka.names import (
    KafkaNames,
    key_in_topic,
    key_of_topic,
    keys_of_topic,
)
from strandline.stores.kafka.opened import capabilities, form_of, open_keyed, open_log
from strandline.stores.kafka.partition import KafkaPartition
from strandline.stores.kafka.raw_partition import RawPartition
from strandline.stores.kafka.reading import KafkaFrameReader
from strandline.stores.kafka.topics import KafkaTopics
from strandline.stores.kafka.trimming import begin_at, release
from strandline.stores.kafka.watching import KafkaWatches
from strandline.stores.topic_ends import TopicEnd, both_ends, ends_of
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

#: How many partitions are appended to concurrently.
_APPENDS_AT_ONCE: Final = 32


class KafkaStore:
    """Implements Store. A child of a fork cannot use it.

    `mode="write"` creates the log's topics with `replicas` replicas. With `sync="always"`,
    the default, brokers sync each message; with "broker", when they are configured to. The
    other modes need an existing log. `patience_s` is how long a call keeps trying while no
    broker answers. `client_file` names a file with further settings of the client.
    """

    def __init__(
        self,
        url: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        connect_timeout_s: float = 10.0,
        patience_s: float = 30.0,
        **options: str | int | None,
    ) -> None:
        self.mode: Mode = Mode.parse(mode)
        address = parse_address(url, **options)
        self._clock = clock if clock is not None else SystemClock()
        connect_s = check_seconds("connect_timeout_s", connect_timeout_s, allows_zero=False)
        waits = {
            "connect_timeout_s": connect_s,
            "patience_s": check_seconds("patience_s", patience_s),
        }
        self._clients = clients = KafkaClients(address, clock=self._clock, **waits)
        self.url: str = address.shown
        self.check_open: Final = clients.state.check
        self._names = names = KafkaNames(address.prefix)
        try:
            self._keyed = keyed = open_keyed(clients, names, form_of(address), self.mode)
            opened = open_log(clients, keyed, address, self.mode, self._clock.new_id())
            self._topics = KafkaTopics(clients, keyed, names, opened.form)
            self.capabilities: Final = capabilities(clients, [names.keyed, *self._topics.names()])
        except BaseException:
            clients.close()
            raise
        self.id: UUID = opened.log_id
        self._is_durable = self.capabilities.durability_max is Durability.DURABLE
        self._watches = KafkaWatches(clients, self._watched_partition, self._end_of)
        self.watch: Final = self._watches.open
        self.metrics: Final = self._watches.metrics
        self._claims = KafkaClaims(clients, keyed)
        self.claim: Final = self._claims.take
        self._executor = ThreadPoolExecutor(_APPENDS_AT_ONCE, "strandline-appends")
        self._lanes = EngineLanes(self._new_lane)

    # --- topics ---

    def topics(self) -> Sequence[EngineTopic]:
        return tuple(self._topics.all().values())

    def _own_topics(self) -> Sequence[EngineTopic]:
        return [each for each in self.topics() if each.settings.source is None]

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> EngineTopic | None:
        del fresh
        own = (each for each in self.topics() if each.topic.tenant == tenant)
        found = next((each for each in own if each.topic.name == name), None)
        return self._topics.with_source(found)

    def remembered(self, topic: Topic) -> EngineTopic | None:
        """Return the cached topic, which may have been dropped."""
        return self._topics.known(topic.id)

    def find_topic_id(self, topic_id: UUID) -> EngineTopic | None:
        return self._topics.with_source(self._topics.all().get(topic_id))

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> EngineTopic:
        identity = Topic(name, self._clock.new_id(), tenant)
        return self._topics.create(EngineTopic(identity, settings, self._clock.now_us()))

    def change_settings(
        self, topic: EngineTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        return self._topics.change_settings(topic, change)

    def drop_topic(self, topic: EngineTopic) -> None:
        self._topics.drop(topic)
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
        if topic.settings.source is not None:
            return self._raw(topic, partition).state()
        return self._partition(topic, partition).state(is_durable=self._is_durable)

    def read(self, topic: EngineTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        if topic.settings.source is not None:
            return self._raw(topic, partition).records(wanted)
        reader, span = self._span(topic, partition, wanted)
        return reader.records(span)

    def follower(self, topic: EngineTopic, partition: int, start: int) -> FrameFollower | None:
        """See `log.parts.follower_of`."""
        if topic.settings.source is not None:
            return None
        found, clock = self._partition(topic, partition), self._clock
        return found.followers.follower(topic, partition, start, found.announced, clock)

    def read_batches(self, topic: EngineTopic, partition: int, wanted: ReadRange) -> RecordBatches:
        kind, number = topic.settings.value_kind, Partition(partition)
        if topic.settings.source is not None:
            raw = self._raw(topic, partition)
            raw.check(wanted)
            return source_batches(number, lambda: raw.pages(wanted))
        reader, span = self._span(topic, partition, wanted)
        return record_batches(kind, number, lambda: reader.pages(span))

    def _span(
        self, topic: EngineTopic, partition: int, wanted: ReadRange
    ) -> tuple[KafkaFrameReader, ReadSpan]:
        found = self._partition(topic, partition)
        marks, end = found.ends()
        public = marks.public(end, is_durable=self._is_durable)
        stop = check_range(wanted, public, marks.oldest, topic.topic, partition)
        reader = KafkaFrameReader(found, end, topic.settings.value_kind)
        return reader, ReadSpan(wanted.start, stop, wanted.bytes_max)

    def history(self, topic: EngineTopic, partition: int, start: int, end: int | None) -> History:
        check_has_no_holes(topic, "a history")
        found, chain = self._partition(topic, partition), self._chain(topic, partition)
        ends = found.ends()
        reader = KafkaFrameReader(found, ends[1], topic.settings.value_kind)
        return frame_history(topic, chain, ends, reader, (Partition(partition), start, end))

    def segments(self, topic: EngineTopic, partition: int) -> Sequence[Segment]:
        if topic.settings.source is not None:
            return []
        found, kind = self._partition(topic, partition), topic.settings.value_kind
        return frame_segments(found.ends, lambda end: KafkaFrameReader(found, end, kind))

    def trim(self, topic: EngineTopic, partition: int, low: int) -> Trimmed:
        lane = self._lanes.lane(topic, partition)
        marks, end, is_released = release(lane.partition, lane.identities, low, low)
        return Trimmed(marks.public(end, is_durable=self._is_durable), is_released=is_released)

    def evict(self, topic: EngineTopic, partition: int, before: int) -> Offset:
        lane = self._lanes.lane(topic, partition)
        return Offset(release(lane.partition, lane.identities, 0, before).marks.oldest)

    def sync(self, topic: EngineTopic, partition: int) -> None:
        """Nothing to do: acknowledged appends are as durable as the brokers can make them."""

    def flush(self) -> None:
        """Nothing to do: acknowledged appends are as durable as the brokers can make them."""

    def identities(self, topic: EngineTopic, partition: int) -> IdentityState:
        lane = self._lanes.lane(topic, partition)
        while True:
            try:
                return lane.identities.state(lane.partition.end(), self._clock.now_us())
            except GoneError:
                continue

    def begin_at(
        self,
        topic: EngineTopic,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        lane = self._lanes.lane(topic, partition)
        begin_at(lane.partition, start, anchor, identities)
        lane.identities.forget()

    def offset_since(self, topic: EngineTopic, partition: int, timestamp_us: int) -> Offset:
        return self._raw(topic, partition).since(timestamp_us)

    # --- keys ---

    def keys(self, topic: EngineTopic) -> Mapping[str, bytes]:
        self._keyed.catch_up()
        found = self._keyed.under(keys_of_topic(topic.topic.id))
        return dict(_pair(key, entry) for key, entry in found.items())

    def get_key(self, topic: EngineTopic, key: str) -> bytes | None:
        self._keyed.catch_up()
        where = key_in_topic(topic.topic.id, key)
        entry = self._keyed.get(where)
        return None if entry.value is None else _pair(where, entry)[1]

    def put_key(self, topic: EngineTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        whose, where = key_of_topic(topic.topic.id), key_in_topic(topic.topic.id, key)
        pair = KeyPut(where, msgspec.msgpack.encode((key, value)))
        self._keyed.catch_up()
        while True:
            owner, entry = self._keyed.get(whose), self._keyed.get(where)
            if owner.value is None:
                raise dropped(topic.topic)
            if (None if entry.value is None else _pair(where, entry)[1]) != expected:
                return False
            conditions = [KeyCondition(whose, owner.version), KeyCondition(where, entry.version)]
            if self._keyed.change(conditions, [pair]) is not None:
                return True

    def remove_key(self, topic: EngineTopic, key: str) -> bool:
        where = key_in_topic(topic.topic.id, key)
        self._keyed.catch_up()
        while True:
            entry = self._keyed.get(where)
            if entry.value is None:
                return False
            condition = KeyCondition(where, entry.version)
            if self._keyed.change([condition], [KeyPut(where, None)]) is not None:
                return True

    # --- the whole ---

    def beside(self, name: str) -> str | None:
        del name
        return None

    def size_bytes(self) -> int:
        total = 0
        for topic in self._own_topics():
            for number in range(topic.settings.partitions):
                with contextlib.suppress(DroppedError):
                    marks, end = self._partition(topic, number).ends()
                    total += end.bytes_total - marks.bytes_before
        return total

    def close(self) -> None:
        if self._clients.state.is_inherited:
            return
        lanes = self._lanes.closings()
        # Closed in reverse order: accepted appends are finished before the clients end.
        steps = (self._keyed.close, self._clients.close, self._claims.close, self._watches.close)
        close_each((*steps, self._executor.shutdown, *lanes))

    # --- inside ---

    def _new_lane(self, topic: EngineTopic, partition: int) -> KafkaLane:
        own, chain = self._new_partition(topic, partition), self._chain(topic, partition)
        places = both_ends(topic.topic, partition)

        def notify(end: int) -> None:
            for place in places:
                self._watches.notify(place, end)

        level = self.capabilities.durability_max
        return KafkaLane(own, chain, level, self._executor, notify)

    def _new_partition(self, topic: EngineTopic, partition: int) -> KafkaPartition:
        topic_id = topic.topic.id
        place = MessagePlace(self._names.records(topic_id), partition)
        chain = self._chain(topic, partition) if topic.settings.proof else None
        is_there = self._topics.is_there_now
        return KafkaPartition(self._clients, place, topic.topic, chain, lambda: is_there(topic_id))

    def _partition(self, topic: EngineTopic, partition: int) -> KafkaPartition:
        return self._lanes.lane(topic, partition).partition

    def _chain(self, topic: EngineTopic, partition: int) -> Chain:
        return Chain(self.id, topic.topic.id, partition, topic.settings.value_kind)

    def _raw(self, topic: EngineTopic, partition: int) -> RawPartition:
        return self._topics.raw.partition(topic, partition)

    def _watched_partition(self, place: TopicEnd) -> KafkaPartition | RawPartition:
        known = self._lanes.known(place.topic, place.partition)
        if known is not None:
            return known.partition
        topic = self.find_topic_id(place.topic.id)
        if topic is None:
            raise dropped(place.topic)
        if topic.settings.source is not None:
            return self._raw(topic, place.partition)
        return self._partition(topic, place.partition)

    def _end_of(self, place: TopicEnd) -> int | None:
        with contextlib.suppress(DroppedError):
            found = self._watched_partition(place)
            return found.next() if isinstance(found, RawPartition) else found.end().next
        return None


def _pair(key: str, entry: KeyedEntry) -> tuple[str, bytes]:
    try:
        return msgspec.msgpack.decode(entry.value or b"", type=tuple[str, bytes])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "the value of a key cannot be read", file=key, position=entry.version
        ) from error
