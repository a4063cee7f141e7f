"""The one log: every rule that holds wherever the bytes lie, over a store that keeps them."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Self
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.log.appending import Appends
from strandline.log.cursors import Cursors
from strandline.log.draft import kind_of
from strandline.log.event_rows import EventRows
from strandline.log.history import History
from strandline.log.loops import check_may_wait, is_on_loop
from strandline.log.numbers import check_timestamp, check_whole
from strandline.log.protocol import (
    LogConsumers,
    LogReader,
    LogTopics,
    LogTransactions,
    LogWriter,
    Value,
)
from strandline.log.ranges import ReadRange, check_kept, check_not_beyond
from strandline.log.receipts import Receipt, Receipts
from strandline.log.results import Batches, TopicName, Watch
from strandline.log.retention import Retention, offset_at
from strandline.log.store import PartitionState, Store, StoredTopic
from strandline.log.terms import check_durable, check_new_name, check_partition, owner, terms_of
from strandline.log.topics import Topics, is_internal_name
from strandline.log.verifying import unproved, verify_each
from strandline.values import (
    RECORD_BYTES_MAX,
    ConsumerLag,
    CorruptError,
    Durability,
    Epoch,
    InvalidError,
    LogDescription,
    Marks,
    Mode,
    Offset,
    Partition,
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
    ValueKind,
    check_consumer_name,
    check_position,
    epoch_before,
    parse_tenant,
    sorted_metadata,
)

_RANK = {Mode.READ: 0, Mode.CONSUME: 1, Mode.WRITE: 2}


class Log(LogTopics, LogWriter, LogTransactions, LogReader, LogConsumers):
    """A log that is open, over the store that keeps its bytes. See the contract.

    A child of a fork cannot use it: its calls raise ClosedError.
    """

    def __init__(
        self,
        store: Store[StoredTopic],
        *,
        clock: Clock | None = None,
        auto_create: bool = False,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:
        self._store = store
        self._clock = clock if clock is not None else SystemClock()
        self._auto_create = auto_create
        self._topics = Topics(store)
        self._cursors = Cursors(store, self._clock)
        self._retention = Retention(store, self._cursors, self._clock)
        bytes_max = check_whole("record_bytes_max", record_bytes_max)
        self._appends = Appends(store, self._topic_to_append, bytes_max)

    @property
    def id(self) -> UUID:
        """The log's identity, for as long as its storage lives."""
        return self._store.id

    @property
    def mode(self) -> Mode:
        """What the log was opened for."""
        return self._store.mode

    @property
    def clock(self) -> Clock:
        """What it takes time and ids from."""
        return self._clock

    @property
    def durability_max(self) -> Durability:
        """The highest level that a record can reach here."""
        return self._store.capabilities.durability_max

    # --- topics ---

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        value_kind: ValueKind = ValueKind.EVENT,
        retention_age_s: int | None = None,
        retention_bytes: int | None = None,
        limit_bytes: int | None = None,
        tenant: str | None = None,
        internal: bool = False,
        proof: bool = False,
        schema: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Topic:
        settings = TopicSettings(
            partitions=partitions,
            value_kind=value_kind,
            retention_age_s=retention_age_s,
            retention_bytes=retention_bytes,
            limit_bytes=limit_bytes,
            proof=proof,
            schema=schema,
            metadata=sorted_metadata(metadata),
        )
        check_new_name(name, internal=internal)
        whose = parse_tenant(tenant)
        self._check_mode(Mode.CONSUME if internal else Mode.WRITE)
        return self._store.create_topic(name, whose, settings).topic

    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        whose = parse_tenant(tenant)
        return self._find(name, whose).topic

    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        whose = parse_tenant(tenant)
        self._store.check_open()
        return self._topics.list(whose, internal=internal)

    def tenants(self) -> Sequence[Tenant]:
        self._store.check_open()
        return self._topics.tenants()

    def describe_topic(self, topic: TopicName) -> TopicDescription:
        self._store.check_open()
        found = self._topics.find(topic, fresh=True)
        states = self._states(found)
        return TopicDescription(
            found.topic,
            found.settings,
            found.created_at_us,
            tuple(state.marks for state in states),
            sum(state.size_bytes for state in states),
        )

    def change_retention(
        self,
        topic: TopicName,
        *,
        retention_age_s: int | None,
        retention_bytes: int | None,
        limit_bytes: int | None = None,
    ) -> TopicDescription:
        self._check_mode(Mode.WRITE)
        found = self._topics.find(topic)
        self._store.change_settings(
            found,
            lambda settings: replace(
                settings,
                retention_age_s=retention_age_s,
                retention_bytes=retention_bytes,
                limit_bytes=limit_bytes,
            ),
        )
        return self.describe_topic(found.topic)

    def drop_topic(self, topic: TopicName) -> None:
        self._check_mode(Mode.WRITE)
        self._store.drop_topic(self._topics.find(topic))
        self._appends.forget()

    # --- writing ---

    def append(
        self,
        topic: TopicName,
        value: Value,
        *,
        key: str | None = None,
        partition: int | None = None,
        tenant: str | None = None,
        durability: Durability | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
        expected_offset: int | None = None,
        timeout_s: float | None = None,
    ) -> Receipt:
        terms = terms_of(
            partition=partition,
            tenant=tenant,
            durability=durability,
            producer=producer,
            sequence=sequence,
            idempotency_key=idempotency_key,
            expected_offset=expected_offset,
            timeout_s=timeout_s,
        )
        self._store.check_open()
        return self._appends.append(topic, value, key, terms)

    def append_many(
        self,
        topic: TopicName,
        values: Iterable[Value],
        *,
        keys: Sequence[str | None] | None = None,
        partition: int | None = None,
        tenant: str | None = None,
        durability: Durability | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        idempotency_key: str | None = None,
        expected_offset: int | None = None,
        timeout_s: float | None = None,
    ) -> Receipts:
        terms = terms_of(
            partition=partition,
            tenant=tenant,
            durability=durability,
            producer=producer,
            sequence=sequence,
            idempotency_key=idempotency_key,
            expected_offset=expected_offset,
            timeout_s=timeout_s,
        )
        each: Sequence[Value] = values if isinstance(values, EventRows) else list(values)
        if keys is not None and len(keys) != len(each):
            raise InvalidError("there is one key for each value", keys=len(keys), values=len(each))
        self._store.check_open()
        return self._appends.append_many(topic, each, keys, terms)

    def transaction(
        self, connection: sqlite3.Connection | None = None
    ) -> AbstractContextManager[sqlite3.Connection]:
        if not self._store.capabilities.has_transactions:
            raise InvalidError(
                "this log shares no transactions, open a sqlite: log in your own database"
            )
        self._check_mode(Mode.WRITE)
        return self._store.transaction(connection)

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        check_whole("before", before)
        found = self._find(topic)
        self._check_mode(Mode.CONSUME if is_internal_name(found.topic.name) else Mode.WRITE)
        number, state = self._state(found, partition)
        check_not_beyond(state.marks, before, found.topic, number)
        return self._retention.trim(found, number, before, force=force)

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        check_whole("before", before)
        self._check_mode(Mode.WRITE)
        found = self._topics.find(topic)
        number, state = self._state(found, partition)
        if self.durability_max is Durability.DURABLE:
            check_durable(before, state.marks.durable)
        else:
            check_not_beyond(state.marks, before, found.topic, number)
        return self._store.evict(found, number, before)

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        self._check_mode(Mode.WRITE)
        found = self._topics.find(topic, fresh=True)
        return [self._retention.apply(found, number) for number in self._numbers(found)]

    def seal(self, topic: TopicName) -> int:
        """End the last segment of each partition, durable, and rewrite runs of rows as columns.

        Returns how many segments were rewritten: 0 where a store keeps no segments.
        Nothing that a reader sees changes.
        """
        self._check_mode(Mode.WRITE)
        found = self._topics.find(topic)
        return sum(self._store.seal(found, number) for number in self._numbers(found))

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
        wanted = ReadRange(start, end, records_max, bytes_max, durable_only).checked()
        found, number = self._to_read(topic, partition, durable_only=durable_only)
        return self._store.read(found, number, wanted)

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
    ) -> Batches:
        wanted = ReadRange(start, end, records_max, bytes_max, durable_only).checked()
        found, number = self._to_read(topic, partition, durable_only=durable_only)
        return self._store.read_batches(found, number, wanted)

    def marks(self, topic: TopicName, partition: int) -> Marks:
        found = self._find(topic)
        return self._store.marks(found, self._number(found, partition))

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        check_timestamp(timestamp_us)
        found = self._find(topic)
        return offset_at(self._store, found, self._number(found, partition), timestamp_us)

    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        return self._state(self._find(topic), partition)[1].epochs

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        found = self._find(topic)
        return self._store.segments(found, self._number(found, partition))

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        check_whole("offset", offset)
        found = self._find(topic)
        number = self._number(found, partition)
        state = self._durable_before(found, number, offset)
        kept = check_kept(state.marks, offset, found.topic, number)
        epoch = epoch_before(kept, state.epochs)
        return Position(self.id, found.topic.id, number, kept, epoch.number, epoch.id)

    def resolve(self, position: Position) -> Offset:
        self._store.check_open()
        if position.log_id != self.id:
            raise InvalidError("this is a position in another log", log_id=position.log_id)
        found = self._topics.find_id(position.topic_id)
        if found is None:
            raise InvalidError("this is a position in no topic of now", topic_id=position.topic_id)
        state = self._state(found, position.partition)[1]
        return check_position(position, state.epochs, state.marks)

    def proof_head(self, topic: TopicName, partition: int) -> ProofHead:
        found = self._find(topic)
        number = self._number(found, partition)
        if not found.settings.proof:
            raise unproved(found.topic)
        high = self._store.marks(found, number).high
        self._durable_before(found, number, high)
        history = self._store.history(found, number, high, high)
        if history.anchor is None:
            raise CorruptError(
                "the proof of this partition is damaged, see verify",
                file=self._store.url,
                position=high,
            )
        return history.chain.head(history.low, history.anchor)

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        found = self._find(topic)
        history = partial(self.history, found.topic)
        return verify_each(history, found.settings.partitions, partition, expected)

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        found = self._find(topic)
        return self._store.history(found, self._number(found, partition), start, end)

    def watch(self, *, durable_only: bool = False) -> Watch:
        self._store.check_open()
        self._check_durable_only(durable_only=durable_only)
        return self._store.watch(self._find, durable_only=durable_only)

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
        check_whole("end", end)
        found, name, whose = self._consumer(topic, consumer, tenant)
        self._check_mode(Mode.CONSUME)
        number = self._number(found, partition)
        self._durable_before(found, number, end)
        return self._cursors.ack(found, number, whose, name, end)

    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
    ) -> None:
        check_whole("offset", offset)
        found, name, whose = self._consumer(topic, consumer, tenant)
        self._check_mode(Mode.CONSUME)
        number = self._number(found, partition)
        self._durable_before(found, number, offset)
        self._cursors.seek(found, number, whose, name, offset)

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        found, name, whose = self._consumer(topic, consumer, tenant)
        return self._cursors.cursor(found, self._number(found, partition), whose, name)

    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        found = self._find(topic)
        return self._cursors.lags(found, owner(found.topic, tenant))

    def forget(self, topic: TopicName, consumer: str, *, tenant: str | None = None) -> bool:
        found, name, whose = self._consumer(topic, consumer, tenant)
        self._check_mode(Mode.CONSUME)
        return self._cursors.forget(found, whose, name)

    # --- the whole log ---

    def sync(self, topic: TopicName, partition: int) -> Marks:
        """Make durable what any process has appended to the partition so far.

        Returns the marks; `durable` covers it where a log reaches durable, and
        nothing happens where it does not.
        """
        self._check_mode(Mode.CONSUME)
        found = self._topics.find(topic)
        number = self._number(found, partition)
        self._store.sync(found, number)
        return self._store.state(found, number).marks

    def flush(self) -> None:
        """Do what `sync` does for every partition, and let the store tidy up."""
        self._check_mode(Mode.CONSUME)
        self._store.flush()

    def describe(self) -> LogDescription:
        """Return what the log is and holds. Nothing about any one tenant."""
        self._store.check_open()
        topics = self._store.topics()
        marks = [state.marks for topic in topics for state in self._states(topic)]
        return LogDescription(
            log_id=self.id,
            backend=self._store.url.partition(":")[0],
            location=self._store.url,
            mode=self.mode,
            durability_max=self.durability_max,
            topics=len(topics),
            partitions=len(marks),
            records=sum(each.high - each.low for each in marks),
            size_bytes=self._store.size_bytes(),
        )

    def close(self) -> None:
        """End the log for its holder: what was acknowledged is kept, as its level says.

        Appends that run are waited for; waits and watches end with ClosedError.
        May be repeated.
        """
        self._store.close()

    def __enter__(self) -> Self:
        """Return this log."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    # --- inside ---

    def _find(self, topic: TopicName, tenant: Tenant | None = None) -> StoredTopic:
        self._store.check_open()
        return self._topics.find(topic, tenant)

    def _number(self, found: StoredTopic, partition: int) -> Partition:
        return check_partition(partition, found.settings.partitions)

    def _numbers(self, found: StoredTopic) -> range:
        return range(found.settings.partitions)

    def _state(self, found: StoredTopic, partition: int) -> tuple[Partition, PartitionState]:
        number = self._number(found, partition)
        return number, self._store.state(found, number)

    def _states(self, found: StoredTopic) -> list[PartitionState]:
        return [self._store.state(found, number) for number in self._numbers(found)]

    def _to_read(
        self, topic: TopicName, partition: int, *, durable_only: bool
    ) -> tuple[StoredTopic, Partition]:
        found = self._find(topic)
        self._check_durable_only(durable_only=durable_only)
        return found, self._number(found, partition)

    def _consumer(
        self, topic: TopicName, consumer: str, tenant: str | None
    ) -> tuple[StoredTopic, str, Tenant | None]:
        name = check_consumer_name(consumer)
        found = self._find(topic)
        return found, name, owner(found.topic, tenant)

    def _topic_to_append(self, topic: TopicName, values: Sequence[Value]) -> StoredTopic:
        name = topic.name if isinstance(topic, Topic) else topic
        if self.mode is not Mode.WRITE and (
            self.mode is Mode.READ or not (isinstance(name, str) and is_internal_name(name))
        ):
            raise self._not_allowed()
        try:
            return self._topics.find(topic)
        except InvalidError:
            if not self._auto_create or isinstance(topic, Topic) or not values:
                raise
            if is_on_loop():
                raise InvalidError(
                    "creating this topic may have to wait, create it before the event loop"
                    " or with asyncio.to_thread",
                    topic=topic,
                ) from None
        self.create_topic(topic, value_kind=kind_of(values[0]))
        return self._topics.find(topic)

    def _durable_before(self, found: StoredTopic, number: int, offset: int) -> PartitionState:
        """Return the partition's state, once what lies before `offset` is durable."""
        state = self._store.state(found, number)
        reaches = self.durability_max is Durability.DURABLE
        if not reaches or not state.marks.durable < offset <= state.marks.high:
            return state
        check_may_wait()
        self._store.sync(found, number)
        return self._store.state(found, number)

    def _check_durable_only(self, *, durable_only: bool) -> None:
        if durable_only and self.durability_max is not Durability.DURABLE:
            raise InvalidError(
                "nothing in this log is ever durable, read without durable_only",
                durability_max=str(self.durability_max),
            )

    def _check_mode(self, least: Mode) -> None:
        """Raise unless a call that may wait and needs this mode may be made."""
        self._store.check_open()
        if _RANK[self.mode] < _RANK[least]:
            raise self._not_allowed()
        check_may_wait()

    def _not_allowed(self) -> InvalidError:
        return InvalidError("the log was opened in a mode that does not allow this", mode=self.mode)
