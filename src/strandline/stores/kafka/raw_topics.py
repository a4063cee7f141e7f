"""Kafka topics that other programs write: whether they exist, and how many partitions."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from strandline.clock import SystemClock
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.kafka.raw_partition import RawPartition
from strandline.values import InvalidError

#: How long the number of a topic's partitions is cached.
_FRESH_S: Final = 1.0


class FoundTopic(NamedTuple):
    """A Kafka topic."""

    #: Changes if the topic is deleted and created again.
    id: str
    partitions: int


class RawTopics:
    """A cache of the Kafka topics that a log reads. Thread-safe."""

    def __init__(self, clients: KafkaClients, own_prefix: str) -> None:
        self._clients = clients
        self._own_prefix = own_prefix
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, FoundTopic | None]] = {}
        self._partitions: dict[MessagePlace, RawPartition] = {}

    def checked(self, source: str) -> FoundTopic:
        """Return a topic that is about to be read; InvalidError if it cannot be."""
        if source.startswith(self._own_prefix):
            raise InvalidError("this Kafka topic is one of the log's own", source=source)
        found = self._looked_up(source)
        if found is None:
            raise InvalidError(
                "there is no such Kafka topic, check the spelling, and whether this user may"
                " describe it",
                source=source,
            )
        return found

    def with_partitions(self, topic: EngineTopic) -> EngineTopic:
        """Return a topic with its current partitions; unchanged if its source is gone."""
        found = self._fresh(str(topic.settings.source))
        if found is None or found.partitions == topic.settings.partitions:
            return topic
        return replace(topic, settings=replace(topic.settings, partitions=found.partitions))

    def partition(self, topic: EngineTopic, number: int) -> RawPartition:
        """Return a partition; InvalidError if the Kafka topic is gone."""
        place = MessagePlace(str(topic.settings.source), number)
        check = self._check(topic)
        check()
        known = self._partitions.get(place)
        if known is None or known.topic != topic.topic:
            settings = self._clients.retried(lambda: self._clients.settings_of([place.topic]))
            is_durable = settings[0].get("flush.messages") == "1"
            known = RawPartition(self._clients, place, topic.topic, check, is_durable=is_durable)
            self._partitions[place] = known
        return known

    def _check(self, topic: EngineTopic) -> Callable[[], None]:
        source = str(topic.settings.source)

        def check() -> None:
            found = self._fresh(source)
            if found is None or found.id != topic.source_id:
                was = "was deleted" if found is None else "was deleted and created again"
                raise InvalidError(
                    f"the Kafka topic that this one reads {was}: drop this topic, and create it"
                    " again to read what is there now",
                    topic=topic.topic.name,
                    source=source,
                )

        return check

    def _fresh(self, source: str) -> FoundTopic | None:
        now = self._clock.monotonic()
        with self._lock:
            seen = self._seen.get(source)
        if seen is not None and now < seen[0] + _FRESH_S:
            return seen[1]
        return self._looked_up(source)

    def _looked_up(self, source: str) -> FoundTopic | None:
        found = self._clients.retried(lambda: self._clients.topic_id(source))
        known = None if found is None else FoundTopic(*found)
        with self._lock:
            self._seen[source] = self._clock.monotonic(), known
        return known
