"""The topics of a memory log."""

import difflib
import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from strandline.clock import Clock
from strandline.log.chain import Chain
from strandline.log.memory_partition import MemoryPartition
from strandline.log.results import TopicName
from strandline.log.terms import check_new_name, check_partition
from strandline.values import (
    ConflictError,
    InvalidError,
    Partition,
    Tenant,
    Topic,
    TopicDescription,
    TopicSettings,
    check_case_twin,
    check_topic_name,
)
from strandline.values.names import RESERVED_PREFIX

_NEAR_MAX = 3


@dataclass(eq=False, slots=True)
class MemoryTopic:
    """One topic with its partitions."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    partitions: tuple[MemoryPartition, ...]
    turns: "itertools.count[int]" = field(default_factory=itertools.count)

    def partition(self, number: int) -> MemoryPartition:
        """Return the partition of this number; InvalidError if there is none."""
        return self.partitions[check_partition(number, len(self.partitions))]

    def describe(self) -> TopicDescription:
        """Return what the topic is and holds."""
        return TopicDescription(
            self.topic,
            self.settings,
            self.created_at_us,
            tuple(partition.marks() for partition in self.partitions),
            sum(partition.size_bytes() for partition in self.partitions),
        )


class MemoryTopics:
    """Finds topics by tenant and name. Thread-safe."""

    def __init__(self, clock: Clock, log_id: UUID) -> None:
        self._clock = clock
        self._log_id = log_id
        self._lock = threading.Lock()
        self._by_name: dict[tuple[Tenant | None, str], MemoryTopic] = {}

    def create(
        self, name: str, tenant: Tenant | None, settings: TopicSettings, *, internal: bool
    ) -> MemoryTopic:
        """Return the new topic, or the one that is the same already."""
        check_new_name(name, internal=internal)
        with self._lock:
            known = self._by_name.get((tenant, name))
            if known is None:
                check_case_twin(name, self._names(tenant))
                known = self._by_name[tenant, name] = self._make(name, tenant, settings)
            elif known.settings != settings:
                raise ConflictError(
                    "the topic exists with other settings, use it as it is or choose another name",
                    topic=name,
                    **known.settings.unlike(settings),
                )
            return known

    def _make(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> MemoryTopic:
        topic = Topic(name, self._clock.new_id(), tenant)
        partitions = tuple(
            MemoryPartition(
                topic,
                Partition(number),
                self._clock,
                Chain(self._log_id, topic.id, number, settings.value_kind),
                is_proved=settings.proof,
            )
            for number in range(settings.partitions)
        )
        return MemoryTopic(topic, settings, self._clock.now_us(), partitions)

    def find(self, topic: TopicName, tenant: Tenant | None = None) -> MemoryTopic:
        """Return the topic; InvalidError with near matches if there is none."""
        if isinstance(topic, Topic):
            name, tenant = topic.name, topic.tenant
        else:
            name = check_topic_name(topic, internal=True)
        found = self._by_name.get((tenant, name))
        if found is None or (isinstance(topic, Topic) and found.topic.id != topic.id):
            raise self._unknown(name, tenant)
        return found

    def _unknown(self, name: str, tenant: Tenant | None) -> InvalidError:
        is_internal = name.startswith(RESERVED_PREFIX)
        with self._lock:
            names = [
                other
                for other in self._names(tenant)
                if other.startswith(RESERVED_PREFIX) == is_internal and other != name
            ]
        near = difflib.get_close_matches(name, names, _NEAR_MAX)
        return InvalidError(
            "there is no such topic, create it first or mend the name", topic=name, near=near
        )

    def all(self) -> Sequence[MemoryTopic]:
        """Return the topics of everybody, in no order."""
        with self._lock:
            return tuple(self._by_name.values())

    def list(self, tenant: Tenant | None, *, internal: bool) -> Sequence[Topic]:
        """Return the tenant's topics sorted by name."""
        return sorted(
            (
                known.topic
                for known in self.all()
                if known.topic.tenant == tenant
                and known.topic.name.startswith(RESERVED_PREFIX) == internal
            ),
            key=lambda topic: topic.name,
        )

    def change_settings(self, known: MemoryTopic, settings: TopicSettings) -> None:
        """Replace the settings of a topic."""
        with self._lock:
            known.settings = settings

    def drop(self, known: MemoryTopic) -> None:
        """Remove a topic; its partitions refuse whoever still holds them."""
        with self._lock:
            self._by_name.pop((known.topic.tenant, known.topic.name), None)
        for partition in known.partitions:
            partition.end(InvalidError("this topic was dropped", topic=known.topic.name, near=[]))

    def _names(self, tenant: Tenant | None) -> Sequence[str]:
        return [name for whose, name in self._by_name if whose == tenant]
