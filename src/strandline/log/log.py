"""The one log: every rule that holds for all stores, written above the store's port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack, overload
from uuid import UUID

from strandline._core import CORE
from strandline.clock import Clock
from strandline.log.access import Access
from strandline.log.appending import Appends, append_many_warm, append_warm, check_values
from strandline.log.broker import Announcer, Broker, announced
from strandline.log.claims import ConsumerPlace
from strandline.log.contract import LogConsumers, LogReader, LogTopics, LogTransactions, LogWriter
from strandline.log.cursor_moves import CursorMove
from strandline.log.cursors import ConsumerCursors
from strandline.log.describing import describe_log, describe_topic, log_html
from strandline.log.history import History
from strandline.log.metrics import LogCounts, LogMetrics
from strandline.log.parts import put_together, unsendable
from strandline.log.positions import position_at, resolve
from strandline.log.queue_depth import default_queue_depth
from strandline.log.quotas import Quotas
from strandline.log.ranges import ReadLimits, ReadRange
from strandline.log.receipts import Receipt, Receipts
from strandline.log.results import Batches, Claim, TopicName, Value, Watch
from strandline.log.retention import Retention, offset_at
from strandline.log.retention_worker import RetentionWorker
from strandline.log.store import Store, StoreTier
from strandline.log.terms import AppendTerms, owner, terms_of
from strandline.log.topic_changes import TopicChanges
from strandline.log.topics import topic_settings
from strandline.log.tracing import Tracing, traced
from strandline.log.transaction import Transaction
from strandline.log.verifying import proof_head, verify_each, with_findings
from strandline.values import (
    RECORD_BYTES_MAX,
    UNCHANGED,
    ConsumerLag,
    Durability,
    Epoch,
    ErasureReport,
    Event,
    Limit,
    LogDescription,
    Marks,
    Mode,
    Offset,
    Partition,
    Position,
    ProofHead,
    ProofReport,
    QuotaLimits,
    QuotaUsage,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicDescription,
    TopicOptions,
    TrimReport,
    parse_tenant,
    sorted_metadata,
)
from strandline.values.arguments import check_flag, check_limit, check_timestamp, check_whole
from strandline.values.payloads import Encoder, EventOptions, check_encoder, encoded_with

if TYPE_CHECKING:
    from strandline.log.async_log import AsyncLog
    from strandline.scans import ScanOptions
    from strandline.scans.dataset import Scan
    from strandline.subscriptions import Consumer, Marker, SharedConsumer, Subscription
    from strandline.subscriptions.options import ConsumerOptions, QueueOptions, SubscribeOptions
    from strandline.typed import Scope


class Log(LogTopics, LogWriter, LogTransactions, LogReader, LogConsumers):
    """An open log, over the store that keeps its bytes. See the contract.

    A `tier` holds the records that the store evicted; a `broker` carries wake-ups, and is closed
    by the code that made it. After a fork, calls in the child raise ClosedError.
    """

    def __init__(
        self,
        store: Store[Any],
        *,
        tier: StoreTier | None = None,
        broker: Broker | None = None,
        clock: Clock | None = None,
        auto_create: bool = False,
        record_bytes_max: int = RECORD_BYTES_MAX,
        queue_depth: int | None = None,
        encoder: Encoder | None = None,
        retention: bool = True,
        tracing: Tracing | None = None,
    ) -> None:
        self._encoder = check_encoder(encoder)
        self._queue_depth = check_limit("queue_depth", queue_depth, 1)
        self._parts = put_together(store, tier, broker, clock, tracing)
        self._store = store = self._parts.store
        clock = self._parts.clock
        self._announcer = None if broker is None else Announcer(broker)
        self._quotas = quotas = Quotas(store, clock)
        self._access = Access(store, quotas, auto_create=check_flag("auto_create", auto_create))
        self._cursors = ConsumerCursors(store, clock)
        self._retention = Retention(store, self._cursors, clock)
        self._worker = RetentionWorker(store, self._cursors, clock, is_wanted=retention)
        bytes_max = check_whole("record_bytes_max", record_bytes_max)
        self._counts = LogCounts()
        parts = (store, self._access.find_to_append, self._retention, bytes_max, self._counts)
        appends = Appends(*parts, quotas=quotas, clock=clock, on_topic=self._worker.begin)
        self._changes = TopicChanges(store, self._access, appends, self._retention, clock)
        self._appends = traced(appends, tracing)
        self._appenders = None if broker else self._appends.appenders
        self._described = partial(describe_topic, store, self._access)

    @property
    def id(self) -> UUID:
        """The log's identity, for as long as its storage exists."""
        return self._store.id

    @property
    def mode(self) -> Mode:
        """What the log was opened for."""
        return self._store.mode

    @property
    def durability_max(self) -> Durability:
        """The highest level that a record can reach here."""
        return self._store.capabilities.durability_max

    @property
    def queue_depth(self) -> int:
        """How many records a subscription holds in memory by default."""
        return default_queue_depth() if self._queue_depth is None else self._queue_depth

    # --- topics ---

    def create_topic(
        self,
        name: str,
        *,
        tenant: str | None = None,
        internal: bool = False,
        metadata: Mapping[str, str] | None = None,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        wanted = topic_settings(settings, sorted_metadata(metadata))
        return self._access.create(name, tenant, wanted, internal=internal).topic

    def topic(self, name: TopicName, *, tenant: str | None = None) -> Topic:
        return self._access.find(name, parse_tenant(tenant)).topic

    def topics(self, *, tenant: str | None = None, internal: bool = False) -> Sequence[Topic]:
        return self._access.list(parse_tenant(tenant), internal=check_flag("internal", internal))

    def tenants(self) -> Sequence[Tenant]:
        return self._access.tenants()

    def describe_topic(self, topic: TopicName) -> TopicDescription:
        return self._described(self._access.find(topic, fresh=True))

    def change_retention(
        self,
        topic: TopicName,
        *,
        retention_age_s: Limit = UNCHANGED,
        retention_bytes: Limit = UNCHANGED,
        limit_bytes: Limit = UNCHANGED,
    ) -> TopicDescription:
        limits = retention_age_s, retention_bytes, limit_bytes
        return self._described(self._changes.change_limits(topic, *limits))

    def add_partitions(self, topic: TopicName, partitions: int) -> TopicDescription:
        return self._described(self._changes.add_partitions(topic, partitions))

    def declare_payload(self, topic: TopicName, payload_schema: Any) -> TopicDescription:
        return self._described(self._changes.declare_payload(topic, payload_schema))

    def set_quota(self, tenant: str, **limits: Unpack[QuotaLimits]) -> QuotaUsage:
        """Change the given limits of a tenant; None removes one. See QuotaLimits."""
        return self._quotas.change(tenant, limits)

    def quotas(self) -> Sequence[QuotaUsage]:
        """Return the quota and the usage of each tenant that has a quota."""
        return self._quotas.all()

    def drop_topic(self, topic: TopicName) -> None:
        self._changes.drop(topic)

    # --- writing ---

    def event(self, kind: str, payload: object = None, **given: Unpack[EventOptions]) -> Event:
        """Return an event whose payload was encoded with the log's `encoder`. See `Event`."""
        return Event(kind, encoded_with(self._encoder, payload), **given)

    def append(
        self,
        topic: TopicName,
        value: Value,
        *,
        key: str | None = None,
        **terms: Unpack[AppendTerms],
    ) -> Receipt:
        if self._appenders is not None and key is None:
            receipt: Receipt = append_warm(self._appenders, topic, value, terms, True)
            if receipt is not NotImplemented:
                return receipt
        self._store.check_open()
        receipt = self._appends.append(topic, value, key, terms_of(terms))
        if self._announcer is not None:
            self._announcer.announce(topic, receipt)
        return receipt

    def append_many(
        self,
        topic: TopicName,
        values: Iterable[Value],
        *,
        keys: Sequence[str | None] | None = None,
        **terms: Unpack[AppendTerms],
    ) -> Receipts:
        if self._appenders is not None and keys is None:
            warm: Receipts = append_many_warm(self._appenders, topic, values, terms, True)
            if warm is not NotImplemented:
                return warm
        given, (each, own) = terms_of(terms), check_values(values, keys)
        self._store.check_open()
        return announced(self._announcer, topic, self._appends.append_many(topic, each, own, given))

    def transaction(self, connection: Any = None) -> AbstractContextManager[Any]:
        block = self._access.transaction(connection)
        if self._announcer is not None:
            block = self._announcer.transaction(block)
        return Transaction(block, self._store.url)

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        return self._changes.trim(topic, partition, before, force=force)

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        return self._changes.evict(topic, partition, before)

    def erase(self, topic: TopicName, *, key: str, dry_run: bool = False) -> ErasureReport:
        """Erase the records of a key, in the topic and its dead letters. See design 0123."""
        return self._changes.erase(topic, key, dry_run=dry_run)

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        return self._changes.apply_retention(topic)

    def seal(self, topic: TopicName) -> int:
        return self._changes.seal(topic)

    # --- reading ---

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        **limits: Unpack[ReadLimits],
    ) -> Iterator[Record]:
        return self._store.read(*self._begun(topic, partition, ReadRange.of(start, end, limits)))

    def read_batches(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        **limits: Unpack[ReadLimits],
    ) -> Batches:
        begun = self._begun(topic, partition, ReadRange.of(start, end, limits))
        return self._store.read_batches(*begun)

    def _begun(self, topic: TopicName, partition: int, wanted: ReadRange) -> Any:
        found, number = self._access.partition(topic, partition)
        self._access.check_durable_only(durable_only=wanted.durable_only)
        self._counts.reads += 1
        return found, number, wanted

    def marks(self, topic: TopicName, partition: int) -> Marks:
        return self._store.marks(*self._access.partition(topic, partition))

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        timestamp_us = check_timestamp(timestamp_us)
        return offset_at(self._store, *self._access.partition(topic, partition), timestamp_us)

    def epochs(self, topic: TopicName, partition: int) -> Sequence[Epoch]:
        return self._store.state(*self._access.partition(topic, partition)).epochs

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        return self._store.segments(*self._access.partition(topic, partition))

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        found, number = self._access.partition(topic, partition)
        return position_at(self._store, self._access, found, number, check_whole("offset", offset))

    def resolve(self, position: Position) -> Offset:
        return resolve(self._store, position)

    def proof_head(self, topic: TopicName, partition: int) -> ProofHead:
        return proof_head(self._store, self._access, *self._access.partition(topic, partition))

    def verify(
        self,
        topic: TopicName,
        partition: int | None = None,
        *,
        expected: Iterable[ProofHead] = (),
    ) -> Sequence[ProofReport]:
        found = self._access.find(topic, fresh=True)
        damage = self._cursors.damage(found)
        return with_findings(verify_each(self.history, found, partition, expected), damage)

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        span = self._access.stored_span(topic, partition, ReadRange(start, end).checked())
        return self._store.history(*span)

    def watch(self, *, durable_only: bool = False) -> Watch:
        self._store.check_open()
        self._access.check_durable_only(durable_only=check_flag("durable_only", durable_only))
        return self._store.watch(self._access.find, durable_only=durable_only)

    # --- consumers ---

    def register(
        self,
        topic: TopicName,
        consumer: str,
        starts: Mapping[int, int],
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> Mapping[Partition, Offset]:
        starting = self._access.starting(topic, consumer, tenant, starts)
        return self._cursors.register(*starting, check_limit("generation", generation))

    def claim(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Claim:
        found, number, whose, name = self._access.cursor(topic, consumer, partition, tenant)
        self._access.check_mode(Mode.CONSUME)
        return self._store.claim(ConsumerPlace(found.topic, whose, name, number))

    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> Offset:
        end, generation = check_whole("end", end), check_limit("generation", generation)
        found, number, whose, name = self._access.moved(topic, consumer, partition, tenant, end)
        acked = self._cursors.ack(found, whose, name, {number: CursorMove(end, generation)})
        return self._counts.acked(acked)[number]

    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> None:
        offset, generation = check_whole("offset", offset), check_limit("generation", generation)
        found, number, whose, name = self._access.moved(topic, consumer, partition, tenant, offset)
        self._cursors.seek(found, number, whose, name, offset, generation=generation)

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        return self._cursors.cursor(*self._access.cursor(topic, consumer, partition, tenant))

    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        found = self._access.find(topic, fresh=True)
        return self._cursors.lags(found, owner(found.topic, tenant))

    def delete_consumer(
        self, topic: TopicName, consumer: str, *, tenant: str | None = None
    ) -> bool:
        found, whose, name = self._access.consumer(topic, consumer, tenant)
        self._access.check_mode(Mode.CONSUME)
        return self._cursors.delete(found, whose, name)

    # --- the rooms above, from here ---

    @overload
    def subscribe(
        self,
        topic: TopicName | Sequence[TopicName],
        *,
        markers: Literal[True],
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[Record | Marker]: ...
    @overload
    def subscribe(
        self,
        topic: TopicName | Sequence[TopicName],
        *,
        markers: Literal[False] = ...,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[Record]: ...
    def subscribe(
        self,
        topic: TopicName | Sequence[TopicName],
        *,
        markers: bool = False,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[Any]:
        """Read topics from a start, and follow them as they grow. See `strandline.subscribe`."""
        from strandline.subscriptions import subscribe  # noqa: PLC0415 - A room above.

        return subscribe(self, topic, markers=markers, **options)

    @overload
    def consumer(
        self, topic: TopicName, name: str, *, shared: Literal[True], **options: Unpack[QueueOptions]
    ) -> SharedConsumer: ...
    @overload
    def consumer(
        self, topic: TopicName, name: str, **options: Unpack[ConsumerOptions]
    ) -> Consumer: ...
    def consumer(self, topic: TopicName, name: str, *, shared: bool = False, **options: Any) -> Any:
        """Return the consumer of this name: see Consumer, and SharedConsumer if `shared`."""
        from strandline.subscriptions import open_consumer  # noqa: PLC0415 - A room above.

        is_shared = check_flag("shared", shared)
        return open_consumer(self, topic, name, shared=is_shared, options=options)

    def scan(self, topic: TopicName, **options: Unpack[ScanOptions]) -> Scan:
        """Return what a topic holds now, for SQL and data frames. See `strandline.scan`."""
        from strandline.scans import scan  # noqa: PLC0415 - A room above.

        return scan(self, topic, **options)

    def scope(self, tenant: str | None = None) -> Scope:
        """Return the log as this tenant may see it; None is the global scope."""
        from strandline.typed import scope_of  # noqa: PLC0415 - A room above.

        return scope_of(self, tenant)

    # --- the whole log ---

    def sync(self, topic: TopicName, partition: int) -> Marks:
        return self._access.synced(topic, partition)

    def flush(self) -> None:
        self._access.flush()

    def describe(self) -> LogDescription:
        """Describe the log. Contains nothing about any one tenant."""
        return describe_log(self._store, self._access, self.queue_depth)

    def metrics(self) -> LogMetrics:
        """Return the counters of this log since it was opened. Does not block."""
        return self._counts.metrics(self._access.measure(), self._quotas.refusals)

    def close(self) -> None:
        """Close the log, after running appends; waits raise ClosedError. May be repeated."""
        # First: cached appenders do not check whether the log is open.
        self._appenders = None
        self._worker.stop()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncLog:
        from strandline.log.async_log import AsyncLog  # noqa: PLC0415 - It imports this one.

        self._face = AsyncLog(self)
        return self._face

    async def __aexit__(self, *exc: object) -> None:
        await self._face.close()

    def __repr__(self) -> str:
        return f"Log({self._store.url!r}, mode={str(self.mode)!r}, core={CORE!r})"

    _repr_html_ = log_html

    def __reduce__(self) -> NoReturn:
        raise unsendable(self._store.url)
