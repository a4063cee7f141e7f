"""The topics and keys of a store that only one process uses."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from strandline.clock import Clock
from strandline.log.topics import TopicNames, check_new_topic
from strandline.values import Tenant, Topic, TopicSettings

P = TypeVar("P")
"""The store's own object for a partition."""


@dataclass(eq=False, slots=True)
class TableTopic(Generic[P]):
    """Implements StoredTopic."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    partitions: Sequence[P]
    keys: dict[str, bytes] = field(default_factory=dict)


class TopicTable(Generic[P]):
    """Implements StoreTopics and StoreKeys. `new_partition` makes the object for a partition."""

    def __init__(
        self, clock: Clock, new_partition: Callable[[Topic, TopicSettings, int], P]
    ) -> None:
        self._clock = clock
        self._new_partition = new_partition
        self._lock = threading.Lock()
        self._topics: dict[tuple[Tenant | None, str], TableTopic[P]] = {}
        self._by_id: dict[UUID, TableTopic[P]] = {}
        self._names = TopicNames()

    # --- topics ---

    def topics(self) -> Sequence[TableTopic[P]]:
        with self._lock:
            return tuple(self._topics.values())

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> TableTopic[P] | None:
        del fresh
        return self._topics.get((tenant, name))

    def find_topic_id(self, topic_id: UUID) -> TableTopic[P] | None:
        return self._by_id.get(topic_id)

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> TableTopic[P]:
        with self._lock:
            known = self._topics.get((tenant, name))
            variants = self._names.case_variants(tenant, name)
            check_new_topic(name, settings, None if known is None else known.settings, variants)
            if known is None:
                known = self._topics[tenant, name] = self._make(name, tenant, settings)
                self._by_id[known.topic.id] = known
                self._names.add(tenant, name)
            return known

    def _make(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> TableTopic[P]:
        topic = Topic(name, self._clock.new_id(), tenant)
        numbers = range(settings.partitions)
        partitions = tuple(self._new_partition(topic, settings, number) for number in numbers)
        return TableTopic(topic, settings, self._clock.now_us(), partitions)

    def change_settings(
        self, topic: TableTopic[P], change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        with self._lock:
            settings = change(topic.settings)
            added = range(topic.settings.partitions, settings.partitions)
            new = (self._new_partition(topic.topic, settings, number) for number in added)
            # Partitions first: a reader of the settings must find every partition.
            topic.partitions = (*topic.partitions, *new)
            topic.settings = settings
            return settings

    def drop_topic(self, topic: TableTopic[P]) -> None:
        with self._lock:
            if self._by_id.pop(topic.topic.id, None) is not None:
                del self._topics[topic.topic.tenant, topic.topic.name]
                self._names.discard(topic.topic.tenant, topic.topic.name)

    # --- keys ---

    def keys(self, topic: TableTopic[P]) -> Mapping[str, bytes]:
        with self._lock:
            return dict(topic.keys)

    def get_key(self, topic: TableTopic[P], key: str) -> bytes | None:
        return topic.keys.get(key)

    def put_key(self, topic: TableTopic[P], key: str, value: bytes, expected: bytes | None) -> bool:
        with self._lock:
            if topic.keys.get(key) != expected:
                return False
            topic.keys[key] = value
            return True

    def remove_key(self, topic: TableTopic[P], key: str) -> bool:
        with self._lock:
            return topic.keys.pop(key, None) is not None
