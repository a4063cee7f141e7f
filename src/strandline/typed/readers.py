"""The progress of a topic's consumers: what was delivered to them, and what they acked."""

import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strandline.log import Log
from strandline.values import Offset, Partition, Tenant, Topic


@dataclass(frozen=True, slots=True)
class ConsumerProgress:
    """One consumer in one partition."""

    consumer: str
    partition: Partition
    delivered: Offset | None
    """The last offset that its live subscription returned; None before the first."""
    acked: Offset | None
    """The last offset that it has acked; None before the first."""
    lag: int
    """How many offsets it has not acked, including records that it does not see."""


class Reader:
    """A live subscription with a consumer's name, for as long as it is referenced."""

    def __init__(self, topic: Topic, tenant: Tenant | None, name: str) -> None:
        self.topic = topic
        self.tenant = tenant
        self.name = name
        self.starts: dict[Partition, Offset] = {}
        self.delivered: dict[Partition, Offset] = {}


class Readers:
    """The live subscriptions of one log object. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: weakref.WeakSet[Reader] = weakref.WeakSet()

    def add(self, reader: Reader) -> None:
        """List it until it is removed or no longer referenced."""
        with self._lock:
            self._readers.add(reader)

    def remove(self, reader: Reader) -> None:
        """Remove it from the list. May be repeated."""
        with self._lock:
            self._readers.discard(reader)

    def progress(self, log: Log, topic: Topic, tenant: Tenant | None) -> Sequence[ConsumerProgress]:
        """Return the tenant's consumers, live or with a cursor, by name and partition."""
        cursors = {
            (each.consumer, each.partition): each.cursor
            for each in log.consumers(topic, tenant=tenant)
        }
        places: dict[tuple[str, Partition], list[Reader]] = {place: [] for place in cursors}
        for reader in self._of(topic, tenant):
            for partition in tuple(reader.starts):
                places.setdefault((reader.name, partition), []).append(reader)
        return [
            _progress(log, topic, place, cursors.get(place), readers)
            for place, readers in sorted(places.items(), key=lambda item: item[0])
        ]

    def _of(self, topic: Topic, tenant: Tenant | None) -> Iterator[Reader]:
        with self._lock:
            readers = list(self._readers)
        return (each for each in readers if each.topic == topic and each.tenant == tenant)


def _progress(
    log: Log,
    topic: Topic,
    place: tuple[str, Partition],
    cursor: Offset | None,
    readers: Sequence[Reader],
) -> ConsumerProgress:
    name, partition = place
    given = [each.delivered[partition] for each in readers if partition in each.delivered]
    begun = [each.starts[partition] for each in readers]
    delivered = max(given) if given else None
    reached = cursor
    if reached is None:
        reached = min(begun) if delivered is None else Offset(delivered + 1)
    acked = Offset(cursor - 1) if cursor else None
    lag = log.marks(topic, partition).high - reached
    return ConsumerProgress(name, partition, delivered, acked, lag)
