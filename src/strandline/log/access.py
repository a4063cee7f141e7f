"""Looks up what a call names, and checks whether the log's mode allows the call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from strandline.log.draft import kind_of
from strandline.log.metrics import StoreMetrics
from strandline.log.quotas import Quotas
from strandline.log.ranges import ReadRange, check_not_beyond
from strandline.log.registering import check_starts
from strandline.log.results import TopicName, Value
from strandline.log.sources import check_own, check_sources
from strandline.log.store import (
    DurableStore,
    MeasuredStore,
    PartitionState,
    SegmentedStore,
    Store,
    StoredTopic,
    TransactionalStore,
    dropped,
)
from strandline.log.terms import check_new_name, check_partition, owner
from strandline.log.topics import check_settings, is_internal_name, name_of, unknown_topic
from strandline.values import (
    Durability,
    InvalidError,
    Marks,
    Mode,
    Partition,
    Tenant,
    Topic,
    TopicSettings,
    check_consumer_name,
    parse_tenant,
)
from strandline.values.arguments import check_flag, whole

_RANK = {Mode.READ: 0, Mode.CONSUME: 1, Mode.WRITE: 2}


class Access:
    """Finds topics, partitions and consumers by what callers pass. Any thread may use it."""

    def __init__(self, store: Store[StoredTopic], quotas: Quotas, *, auto_create: bool) -> None:
        self._store = store
        self._quotas = quotas
        self._auto_create = auto_create
        #: For stores reached over a network: the topic as an earlier lookup found it. If the
        #: topic was dropped since, using it raises DroppedError.
        self._remembered: Callable[[Topic], StoredTopic | None] | None = getattr(
            store, "remembered", None
        )
        capabilities = store.capabilities
        self._durable = (
            cast("DurableStore[StoredTopic]", store)
            if capabilities.durability_max is Durability.DURABLE
            else None
        )

    # --- topics ---

    def find(
        self, topic: TopicName, tenant: Tenant | None = None, *, fresh: bool = False
    ) -> StoredTopic:
        """Return the topic; InvalidError, with similar names, if there is none.

        DroppedError if it existed at an earlier lookup.
        """
        found = self._find_if_any(topic, tenant, fresh=fresh)
        if found is None:
            whose, name = name_of(topic, tenant)
            # Rooms look up their internal topics often, by names that are constants.
            names = () if is_internal_name(name) else self._topics_of(whose)
            raise unknown_topic(name, [each.name for each in names])
        return found

    def _find_if_any(
        self, topic: TopicName, tenant: Tenant | None = None, *, fresh: bool = False
    ) -> StoredTopic | None:
        self._store.check_open()
        whose, name = name_of(topic, tenant)
        found = self._store.find_topic(whose, name, fresh=fresh)
        if isinstance(topic, Topic) and (found is None or found.topic.id != topic.id):
            raise dropped(topic)
        return found

    def find_to_append(self, topic: TopicName, values: Sequence[Value]) -> StoredTopic:
        """Return the topic to append to; with `auto_create`, create it if it is unknown."""
        self.check_may_append(topic)
        if self._auto_create and values and not isinstance(topic, Topic):
            # Not by `find`, whose error looks at the name of every topic.
            found = self._find_if_any(topic)
            if found is None:
                return self.create(topic, None, TopicSettings(value_kind=kind_of(values[0])))
        else:
            found = self.find(topic)
        check_own(found)
        return found

    def create(
        self, name: str, tenant: str | None, settings: TopicSettings, *, internal: bool = False
    ) -> StoredTopic:
        """Return the existing topic, or create it."""
        name = check_new_name(name, internal=check_flag("internal", internal))
        check_settings(name, settings)
        check_sources(self._store, settings)
        whose = parse_tenant(tenant)
        self.check_mode(Mode.CONSUME if internal else Mode.WRITE)
        self._quotas.admit_topic(whose, name)
        return self._store.create_topic(name, whose, settings)

    def list(self, tenant: Tenant | None, *, internal: bool) -> Sequence[Topic]:
        """Return the tenant's topics sorted by name."""
        self._store.check_open()
        chosen = [
            each for each in self._topics_of(tenant) if is_internal_name(each.name) == internal
        ]
        return sorted(chosen, key=lambda each: each.name)

    def tenants(self) -> Sequence[Tenant]:
        """Return the tenants that have a topic, sorted."""
        self._store.check_open()
        found = {each.topic.tenant for each in self._store.topics()}
        return sorted(each for each in found if each is not None)

    def _topics_of(self, tenant: Tenant | None) -> Sequence[Topic]:
        whose = self._store.capabilities.tenant if tenant is None else tenant
        return [each.topic for each in self._store.topics() if each.topic.tenant == whose]

    # --- partitions ---

    def partition(self, topic: TopicName, partition: int) -> tuple[StoredTopic, Partition]:
        """Return the topic and the checked partition; InvalidError if it has no such one."""
        remembered = None
        if self._remembered is not None and isinstance(topic, Topic):
            self._store.check_open()
            remembered = self._remembered(topic)
        found = self.with_partitions(remembered or self.find(topic), (partition,))
        return found, check_partition(partition, found.settings.partitions)

    def stored_span(
        self, topic: TopicName, partition: int, wanted: ReadRange
    ) -> tuple[StoredTopic, Partition, int, int | None]:
        """Return what to read of a history; InvalidError for a start beyond the end."""
        found, number = self.partition(topic, partition)
        if wanted.start:
            marks = self._store.marks(found, number)
            check_not_beyond(marks, wanted.start, found.topic, number)
        return found, number, wanted.start, wanted.end

    def with_partitions(self, topic: StoredTopic, numbers: Iterable[object]) -> StoredTopic:
        """Return the topic, looked up again if it lacks one of these partitions.

        Another process may have added it.
        """
        count = topic.settings.partitions
        if all((whole(each) or 0) < count for each in numbers):
            return topic
        return self.find(topic.topic, fresh=True)

    def states(self, topic: StoredTopic) -> Sequence[PartitionState]:
        """Return every partition of a topic."""
        return [self._store.state(topic, number) for number in range(topic.settings.partitions)]

    def durable_before(self, topic: StoredTopic, partition: int, offset: int) -> PartitionState:
        """Make records before `offset` durable if the store can; return the partition's state."""
        state = self._store.state(topic, partition)
        if not state.marks.durable < offset <= state.marks.high:
            return state
        self.sync(topic, partition)
        return self._store.state(topic, partition)

    # --- what only some stores have ---

    def seal(self, topic: StoredTopic) -> int:
        """Seal a topic's segments, where it has any; return how many were rewritten."""
        if not self._store.capabilities.has_segments:
            return 0
        seal = cast("SegmentedStore[StoredTopic]", self._store).seal
        return sum(seal(topic, number) for number in range(topic.settings.partitions))

    def measure(self) -> StoreMetrics:
        """Return the store's counters; empty if it has none."""
        self._store.check_open()
        if not self._store.capabilities.has_metrics:
            return StoreMetrics()
        return cast("MeasuredStore", self._store).metrics()

    def transaction(self, connection: Any) -> AbstractContextManager[Any]:
        """Begin a transaction with the caller's own rows, or raise."""
        if not self._store.capabilities.has_transactions:
            raise InvalidError(
                "this log shares no transactions, open a sqlite: or postgresql: log in your own"
                " database"
            )
        self.check_mode(Mode.WRITE)
        return cast("TransactionalStore", self._store).transaction(connection)

    @property
    def reaches_durable(self) -> bool:
        """Whether records of this log can become durable."""
        return self._durable is not None

    def sync(self, topic: StoredTopic, partition: int) -> None:
        """Make a partition durable if the store can."""
        if self._durable is not None:
            self._durable.sync(topic, partition)

    def synced(self, topic: TopicName, partition: int) -> Marks:
        """Make the partition that a call names durable, and return its marks."""
        self.check_mode(Mode.CONSUME)
        found, number = self.partition(topic, partition)
        self.sync(found, number)
        return self._store.marks(found, number)

    def flush(self) -> None:
        """Make everything durable if the store can."""
        self.check_mode(Mode.CONSUME)
        if self._durable is not None:
            self._durable.flush()

    # --- consumers ---

    def consumer(
        self, topic: TopicName, consumer: str, tenant: str | None
    ) -> tuple[StoredTopic, Tenant | None, str]:
        """Return the topic, the consumer's tenant, and the consumer's name."""
        name = check_consumer_name(consumer)
        found = self.find(topic)
        return found, owner(found.topic, tenant), name

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, tenant: str | None
    ) -> tuple[StoredTopic, Partition, Tenant | None, str]:
        """Return the topic, the partition, the consumer's tenant, and the consumer's name."""
        found, whose, name = self.consumer(topic, consumer, tenant)
        found = self.with_partitions(found, (partition,))
        return found, check_partition(partition, found.settings.partitions), whose, name

    def moved(
        self, topic: TopicName, consumer: str, partition: int, tenant: str | None, offset: int
    ) -> tuple[StoredTopic, Partition, Tenant | None, str]:
        """Return the same for a cursor that moves to `offset`, once all before it is durable."""
        found, number, whose, name = self.cursor(topic, consumer, partition, tenant)
        self.check_mode(Mode.CONSUME)
        self.durable_before(found, number, offset)
        return found, number, whose, name

    def starting(
        self, topic: TopicName, consumer: str, tenant: str | None, starts: Mapping[int, int]
    ) -> tuple[StoredTopic, Tenant | None, str, Mapping[Partition, int]]:
        """Return the same for several cursors, once all before their starts is durable."""
        found, whose, name = self.consumer(topic, consumer, tenant)
        self.check_mode(Mode.CONSUME)
        if isinstance(starts, Mapping):
            found = self.with_partitions(found, starts)
        wanted = check_starts(starts, found.settings.partitions)
        for number, start in wanted.items():
            self.durable_before(found, number, start)
        return found, whose, name, wanted

    # --- whether it may be made ---

    def check_mode(self, least: Mode) -> None:
        """Raise unless the log's mode allows calls that need `least`."""
        self._store.check_open()
        if _RANK[self._store.mode] < _RANK[least]:
            raise self.not_allowed(least)

    def check_may_append(self, topic: TopicName) -> None:
        """Raise unless the mode allows to append to this topic."""
        mode = self._store.mode
        if mode is Mode.WRITE:
            return
        if mode is Mode.READ or not is_internal_name(name_of(topic, None)[1]):
            raise self.not_allowed(Mode.WRITE)

    def check_durable_only(self, *, durable_only: bool) -> None:
        """Raise InvalidError for `durable_only` in a log that is never durable."""
        if durable_only and not self.reaches_durable:
            raise InvalidError(
                "nothing in this log is ever durable, read without durable_only",
                durability_max=str(self._store.capabilities.durability_max),
            )

    def not_allowed(self, least: Mode) -> InvalidError:
        """Return the error for a call that needs the mode `least`."""
        return InvalidError(
            f"the log was opened in a mode that does not allow this, open it with mode='{least}'",
            mode=str(self._store.mode),
        )
