"""A log that lives and dies with its process: the reference, and the model in tests."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Self
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.log.calls import Calls
from strandline.log.columns import RecordBatches
from strandline.log.draft import Draft, draft, kind_of, load
from strandline.log.history import History
from strandline.log.local_watch import LocalWatch
from strandline.log.memory_columns import record_batches
from strandline.log.memory_partition import Entry, MemoryPartition
from strandline.log.memory_receipt import MemoryReceipt, MemoryReceipts
from strandline.log.memory_topics import MemoryTopic, MemoryTopics
from strandline.log.numbers import check_flag, check_span, check_timestamp, check_whole
from strandline.log.results import TopicName, Value
from strandline.log.terms import Terms, owner
from strandline.log.transactions import NoTransactions
from strandline.log.verifying import verify_each
from strandline.values import (
    RECORD_BYTES_MAX,
    ClosedError,
    ConsumerLag,
    Durability,
    Epoch,
    InvalidError,
    LogDescription,
    Marks,
    Mode,
    Offset,
    Position,
    ProofHead,
    ProofReport,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicDescription,
    TopicSettings,
    TrimReport,
    check_consumer_name,
    check_position,
    checked_position,
    parse_tenant,
)

_SCHEME = "memory"


class MemoryLog(NoTransactions, Calls[MemoryReceipt, MemoryReceipts]):
    """Implements Log. Reaches applied, and no more: nothing here outlives the process.

    Retention is applied after each append. A child of a fork cannot use it.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        auto_create: bool = False,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._auto_create = auto_create
        self._record_bytes_max = check_whole("record_bytes_max", record_bytes_max)
        self._id = self._clock.new_id()
        self._topics = MemoryTopics(self._clock, self._id)
        self._watches: set[LocalWatch] = set()
        self._pid = os.getpid()
        self._is_closed = False

    @property
    def id(self) -> UUID:
        return self._id

    @property
    def mode(self) -> Mode:
        return Mode.WRITE

    @property
    def durability_max(self) -> Durability:
        return Durability.APPLIED

    # --- topics ---

    def _create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings, *, internal: bool
    ) -> Topic:
        self._check_open()
        return self._topics.create(name, tenant, settings, internal=internal).topic

    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        self._check_open()
        return self._topics.find(name, parse_tenant(tenant)).topic

    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        self._check_open()
        return self._topics.list(parse_tenant(tenant), internal=check_flag("internal", internal))

    def tenants(self) -> Sequence[Tenant]:
        self._check_open()
        found = {known.topic.tenant for known in self._topics.all()}
        return sorted(each for each in found if each is not None)

    def describe_topic(self, topic: TopicName) -> TopicDescription:
        return self._topic(topic).describe()

    def _change_settings(
        self, topic: TopicName, changed: Callable[[TopicSettings], TopicSettings]
    ) -> TopicDescription:
        known = self._topic(topic)
        self._topics.change_settings(known, changed(known.settings))
        return known.describe()

    def drop_topic(self, topic: TopicName) -> None:
        self._topics.drop(self._topic(topic))

    # --- writing ---

    def _append(
        self, topic: TopicName, value: Value, key: str | None, terms: Terms
    ) -> MemoryReceipt:
        return self._append_many(topic, [value], [key], terms)[0]

    def _append_many(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
    ) -> MemoryReceipts:
        self._check_open()
        terms.level(self.durability_max)
        terms.check_count(len(values))
        known = self._topic_to_append(topic, values)
        tenant = owner(known.topic, terms.tenant)
        drafts = self._drafts(known, values, keys or [None] * len(values))
        routed = terms.route(
            [each.key for each in drafts], len(known.partitions), lambda: next(known.turns)
        )
        receipts: dict[int, MemoryReceipt] = {}
        for number, indices in routed.items():
            placed = known.partitions[number].append(
                [drafts[index] for index in indices],
                [(terms.sequence or 0) + index for index in indices],
                tenant,
                terms,
                known.settings,
            )
            for index, place in zip(indices, placed, strict=True):
                receipts[index] = MemoryReceipt(number, *place)
        return MemoryReceipts(receipts[index] for index in range(len(values)))

    def _topic_to_append(self, topic: TopicName, values: Sequence[Value]) -> MemoryTopic:
        try:
            return self._topics.find(topic)
        except InvalidError:
            if not self._auto_create or isinstance(topic, Topic) or not values:
                raise
        settings = TopicSettings(value_kind=kind_of(values[0]))
        return self._topics.create(topic, None, settings, internal=False)

    def _drafts(
        self, known: MemoryTopic, values: Sequence[Value], keys: Sequence[str | None]
    ) -> list[Draft]:
        return [
            draft(value, key, known.settings.value_kind, self._record_bytes_max)
            for value, key in zip(values, keys, strict=True)
        ]

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        found = self._partition(topic, partition)
        return found.trim(check_whole("before", before), force=check_flag("force", force))

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        found = self._partition(topic, partition)
        return found.evict(check_whole("before", before))

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        known = self._topic(topic)
        return [partition.retain(known.settings) for partition in known.partitions]

    # --- reading ---

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        records_max: int | None = None,
        bytes_max: int | None = None,
        durable_only: bool = False,
    ) -> Iterator[Record]:
        known = self._topic(topic)
        found = known.partition(partition)
        entries = _read(found, start, end, records_max, bytes_max, durable_only=durable_only)
        return _records(known, found, entries)

    def read_batches(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        records_max: int | None = None,
        bytes_max: int | None = None,
        durable_only: bool = False,
    ) -> RecordBatches:
        known = self._topic(topic)
        found = known.partition(partition)
        entries = _read(found, start, end, records_max, bytes_max, durable_only=durable_only)
        return record_batches(known.settings.value_kind, found.number, entries)

    def marks(self, topic: TopicName, partition: int) -> Marks:
        return self._partition(topic, partition).marks()

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        return self._partition(topic, partition).offset_at(check_timestamp(timestamp_us))

    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        return [self._partition(topic, partition).epoch]

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        return self._partition(topic, partition).segments()

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        known = self._topic(topic)
        found = known.partition(partition)
        kept = found.check_kept(check_whole("offset", offset))
        epoch = found.epoch
        return Position(self._id, known.topic.id, found.number, kept, epoch.number, epoch.id)

    def resolve(self, position: Position) -> Offset:
        self._check_open()
        position = checked_position(position)
        if position.log_id != self._id:
            raise InvalidError("this is a position in another log", log_id=position.log_id)
        for known in self._topics.all():
            if known.topic.id == position.topic_id:
                found = known.partition(position.partition)
                return check_position(position, [found.epoch], found.marks())
        raise InvalidError("this is a position in no topic of now", topic_id=position.topic_id)

    def proof_head(self, topic: TopicName, partition: int) -> ProofHead:
        return self._partition(topic, partition).proof_head()

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        known = self._topic(topic)
        history = partial(self.history, known.topic)
        return verify_each(history, len(known.partitions), partition, expected)

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        begin, stop, *_ = check_span(start, end)
        return self._partition(topic, partition).history(begin, stop)

    def watch(self, *, durable_only: bool = False) -> LocalWatch:
        self._check_open()
        if check_flag("durable_only", durable_only):
            raise _never_durable()
        watch = LocalWatch(self._clock, self._partition, self._watches.discard)
        self._watches.add(watch)
        if self._is_closed:
            # A close in between did not find it.
            watch.close()
        return watch

    # --- consumers ---

    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
    ) -> Offset:
        known = self._topic(topic)
        name, whose = check_consumer_name(consumer), owner(known.topic, tenant)
        return known.partition(partition).ack(whose, name, check_whole("end", end))

    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
    ) -> None:
        known = self._topic(topic)
        name, whose = check_consumer_name(consumer), owner(known.topic, tenant)
        known.partition(partition).seek(whose, name, check_whole("offset", offset))

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        known = self._topic(topic)
        name, whose = check_consumer_name(consumer), owner(known.topic, tenant)
        return known.partition(partition).cursor(whose, name)

    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        known = self._topic(topic)
        whose = owner(known.topic, tenant)
        lags = [lag for partition in known.partitions for lag in partition.consumers(whose)]
        return sorted(lags, key=lambda lag: (lag.consumer, lag.partition))

    def forget(self, topic: TopicName, consumer: str, *, tenant: str | None = None) -> bool:
        known = self._topic(topic)
        name, whose = check_consumer_name(consumer), owner(known.topic, tenant)
        forgotten = [partition.forget(whose, name) for partition in known.partitions]
        return any(forgotten)

    # --- the whole log ---

    def sync(self, topic: TopicName, partition: int) -> Marks:
        return self.marks(topic, partition)

    def flush(self) -> None:
        self._check_open()

    def describe(self) -> LogDescription:
        self._check_open()
        topics = [known.describe() for known in self._topics.all()]
        return LogDescription(
            log_id=self._id,
            backend=_SCHEME,
            location=f"{_SCHEME}:",
            mode=self.mode,
            durability_max=self.durability_max,
            topics=len(topics),
            partitions=sum(topic.settings.partitions for topic in topics),
            records=sum(topic.records for topic in topics),
            size_bytes=sum(topic.size_bytes for topic in topics),
        )

    def close(self) -> None:
        self._is_closed = True
        # First, so that the end of a partition looks to no reader like news of it.
        for watch in tuple(self._watches):
            watch.close()
        for known in self._topics.all():
            for partition in known.partitions:
                partition.end(_closed())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _topic(self, topic: TopicName) -> MemoryTopic:
        self._check_open()
        return self._topics.find(topic)

    def _partition(self, topic: TopicName, partition: int) -> MemoryPartition:
        return self._topic(topic).partition(partition)

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()
        if os.getpid() != self._pid:
            raise ClosedError("a memory: log stays with its process, open one after the fork")


def _closed() -> ClosedError:
    return ClosedError("this log was closed, open it anew")


def _never_durable() -> InvalidError:
    return InvalidError("nothing in a memory: log is ever durable, read without durable_only")


def _read(
    partition: MemoryPartition,
    start: int,
    end: int | None,
    records_max: int | None,
    bytes_max: int | None,
    *,
    durable_only: bool,
) -> list[Entry]:
    wanted = check_span(start, end, records_max, bytes_max, durable_only=durable_only)
    if durable_only:
        raise _never_durable()
    return partition.read(*wanted)


def _records(
    known: MemoryTopic, partition: MemoryPartition, entries: list[Entry]
) -> Iterator[Record]:
    for entry in entries:
        yield Record(
            known.topic.name,
            partition.number,
            entry.offset,
            entry.timestamp_us,
            entry.key,
            entry.tenant,
            load(known.settings.value_kind, entry.body, entry.key),
        )
