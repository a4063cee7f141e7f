"""A store in the memory of its process: the reference, and the model in tests."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.log.chain import Chain
from strandline.log.claims import ConsumerPlace, LocalClaim, LocalClaims
from strandline.log.columns import RecordBatches
from strandline.log.decide import decide, record_identities
from strandline.log.draft import load
from strandline.log.history import Body, History, Piece
from strandline.log.identities import Identities
from strandline.log.local_watch import LocalWatch
from strandline.log.ranges import ReadRange, check_range, count_within
from strandline.log.record_batches import record_batches
from strandline.log.results import Hint, TopicName
from strandline.log.settled import Settled
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    DroppedError,
    PartitionState,
    Placement,
    Reach,
    Trimmed,
)
from strandline.log.terms import check_partition
from strandline.log.topics import TopicNames, check_new_topic
from strandline.values import (
    ClosedError,
    Durability,
    Epoch,
    InvalidError,
    Marks,
    Mode,
    Offset,
    Partition,
    Record,
    Segment,
    StrandlineError,
    Tenant,
    Topic,
    TopicSettings,
)

_PAGE_RECORDS = 4096
#: A column of Arrow strings ends at 2 GiB.
_PAGE_BYTES = 64 * 1024 * 1024


class MemoryRecord(NamedTuple):
    """A record as it is kept."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body
    size_bytes: int


class MemoryPartition:
    """A list of records, and a lock. Implements Head and Watched."""

    def __init__(self, topic: Topic, number: int, chain: Chain, clock: Clock) -> None:
        self.topic = topic
        self.number = Partition(number)
        self.chain = chain
        self.lock = threading.Lock()
        # Invariant: the record at index i has the offset oldest + i, and low <= oldest.
        self.records: list[MemoryRecord] = []
        #: The chain's value after each record, and before all of them.
        self.values: list[bytes] = []
        self.anchor = chain.origin
        self.low = self.oldest = self.last_us = self.size_bytes = 0
        self.epoch = Epoch(0, clock.new_id(), Offset(0))
        self._identities = Identities()
        self._watches: set[LocalWatch] = set()
        self.end: StrandlineError | None = None

    @property
    def next(self) -> int:
        return self.oldest + len(self.records)

    def identities(self, now_us: int) -> Identities:
        self._identities.expire(now_us)
        return self._identities

    def marks(self) -> Marks:
        # Nothing that is kept here is durable.
        return Marks(Offset(self.low), Offset(self.next), durable=Offset(self.low))

    def state(self) -> PartitionState:
        self.check_usable()
        return PartitionState(self.marks(), Offset(self.oldest), (self.epoch,))

    def check_usable(self) -> None:
        if self.end is not None:
            raise copy(self.end)

    def add(self, request: AppendRequest, now_us: int, *, is_proved: bool) -> Placement:
        decision = decide(self, request, now_us)
        start, (stamp, originals) = self.next, decision
        fresh = request.drafts[len(originals) :]
        for offset, (key, body, size_bytes) in enumerate(fresh, start):
            record = MemoryRecord(Offset(offset), stamp, key, request.tenant, body, size_bytes)
            if is_proved:
                self.values.append(self.chain.link_kept(self.value_before(offset), record))
            self.records.append(record)
            self.size_bytes += size_bytes
        if fresh:
            self.last_us = stamp
            record_identities(self, request, decision, start)
            for watch in self._watches:
                watch.notify(self._hint())
        return Placement(start, stamp, originals)

    def value_before(self, offset: int) -> bytes:
        return self.values[offset - self.oldest - 1] if offset > self.oldest else self.anchor

    def release(self, before: int) -> None:
        """Let go of the records before an offset."""
        gone = max(0, before - self.oldest)
        if self.values:
            self.anchor = self.value_before(self.oldest + gone)
            del self.values[:gone]
        self.size_bytes -= sum(record.size_bytes for record in self.records[:gone])
        del self.records[:gone]
        self.oldest += gone

    def add_watch(self, watch: LocalWatch, seen: Offset) -> None:
        with self.lock:
            self.check_usable()
            self._watches.add(watch)
            watch.start(self.topic, self.number, seen)
            watch.notify(self._hint())

    def remove_watch(self, watch: LocalWatch) -> None:
        with self.lock:
            self._watches.discard(watch)
            watch.stop(self.topic, self.number)

    def finish(self, reason: StrandlineError) -> None:
        """Raise `reason` from now on."""
        with self.lock:
            self.end = reason
            for watch in self._watches:
                watch.notify_dropped(self._hint())

    def _hint(self) -> Hint:
        return Hint(self.topic, self.number, Offset(self.next))


@dataclass(eq=False, slots=True)
class MemoryTopic:
    """Implements StoredTopic."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    partitions: Sequence[MemoryPartition]
    keys: dict[str, bytes] = field(default_factory=dict)


class MemoryStore:
    """Implements Store. Reaches applied, and no more: nothing here outlives the process."""

    url = "memory:"
    mode = Mode.WRITE
    capabilities = Capabilities(
        Durability.APPLIED, "memory is lost with its process", Reach.PROCESS, trims_at_once=True
    )

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self.id = self._clock.new_id()
        self._lock = threading.Lock()
        self._topics: dict[tuple[Tenant | None, str], MemoryTopic] = {}
        self._by_id: dict[UUID, MemoryTopic] = {}
        self._names = TopicNames()
        self._watches: set[LocalWatch] = set()
        self._claims = LocalClaims()
        self._pid = os.getpid()
        self._is_closed = False

    def check_open(self) -> None:
        if self._is_closed:
            raise _closed()
        if os.getpid() != self._pid:
            raise ClosedError("a memory: log stays with its process, open one after the fork")

    # --- topics ---

    def topics(self) -> Sequence[MemoryTopic]:
        with self._lock:
            return tuple(self._topics.values())

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> MemoryTopic | None:
        del fresh
        return self._topics.get((tenant, name))

    def find_topic_id(self, topic_id: UUID) -> MemoryTopic | None:
        return self._by_id.get(topic_id)

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> MemoryTopic:
        with self._lock:
            known = self._topics.get((tenant, name))
            case_variants = self._names.case_variants(tenant, name)
            check_new_topic(
                name, settings, None if known is None else known.settings, case_variants
            )
            if known is None:
                known = self._topics[tenant, name] = self._make(name, tenant, settings)
                self._by_id[known.topic.id] = known
                self._names.add(tenant, name)
            return known

    def _make(self, name: str, tenant: Tenant | None, settings: TopicSettings) -> MemoryTopic:
        topic = Topic(name, self._clock.new_id(), tenant)
        partitions = tuple(
            MemoryPartition(
                topic, number, Chain(self.id, topic.id, number, settings.value_kind), self._clock
            )
            for number in range(settings.partitions)
        )
        return MemoryTopic(topic, settings, self._clock.now_us(), partitions)

    def change_settings(
        self, topic: MemoryTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        with self._lock:
            topic.settings = change(topic.settings)
            return topic.settings

    def drop_topic(self, topic: MemoryTopic) -> None:
        with self._lock:
            if self._by_id.pop(topic.topic.id, None) is not None:
                del self._topics[topic.topic.tenant, topic.topic.name]
                self._names.discard(topic.topic.tenant, topic.topic.name)
        for partition in topic.partitions:
            partition.finish(
                DroppedError("this topic was dropped", topic=topic.topic.name, near=[])
            )

    # --- records ---

    def append(
        self,
        topic: MemoryTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
    ) -> Settled:
        del level, timeout_s
        found = topic.partitions[partition]
        with found.lock:
            found.check_usable()
            now_us = self._clock.now_us()
            return Settled(found.add(request, now_us, is_proved=topic.settings.proof))

    def state(self, topic: MemoryTopic, partition: int) -> PartitionState:
        found = topic.partitions[partition]
        with found.lock:
            return found.state()

    def marks(self, topic: MemoryTopic, partition: int) -> Marks:
        return self.state(topic, partition).marks

    def read(self, topic: MemoryTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        kind = topic.settings.value_kind
        return (
            Record(
                *(topic.topic.name, Partition(partition), each.offset, each.timestamp_us),
                *(each.key, each.tenant, load(kind, each.body, each.key)),
            )
            for each in self._kept(topic, partition, wanted)
        )

    def read_batches(self, topic: MemoryTopic, partition: int, wanted: ReadRange) -> RecordBatches:
        kept = self._kept(topic, partition, wanted)
        kind = topic.settings.value_kind
        return record_batches(kind, Partition(partition), lambda: _pages(kept))

    def _kept(
        self, topic: MemoryTopic, partition: int, wanted: ReadRange
    ) -> Sequence[MemoryRecord]:
        found = topic.partitions[partition]
        with found.lock:
            found.check_usable()
            stop = check_range(wanted, found.marks(), found.oldest, topic.topic, partition)
            kept = found.records[wanted.start - found.oldest : stop - found.oldest]
        return kept[: count_within((each.size_bytes for each in kept), wanted.bytes_max)]

    def history(self, topic: MemoryTopic, partition: int, start: int, end: int | None) -> History:
        found, is_proved = topic.partitions[partition], topic.settings.proof
        with found.lock:
            found.check_usable()
            first, low, high = found.oldest, max(start, found.oldest), found.next
            high = max(low, high if end is None else min(end, high))
            kept = found.records[low - first : high - first]
            values = found.values[low - first : high - first]
            anchor = found.value_before(low) if is_proved else None
        pieces = (Piece([each], value) for each, value in zip_longest(kept, values))
        return History(found.number, low, high, found.chain, anchor, is_proved, pieces)

    def segments(self, topic: MemoryTopic, partition: int) -> Sequence[Segment]:
        found = topic.partitions[partition]
        with found.lock:
            state, kept = found.state(), found.records
            if not kept:
                return []
            stamps = kept[0].timestamp_us, kept[-1].timestamp_us
        return [
            Segment(
                *(state.oldest, state.marks.high, found.size_bytes, *stamps),
                is_sealed=False,
                location=None,
            )
        ]

    def trim(self, topic: MemoryTopic, partition: int, low: int) -> Trimmed:
        found = topic.partitions[partition]
        with found.lock:
            found.low = max(found.low, min(low, found.next))
            found.release(found.low)
            return Trimmed(found.marks(), is_released=True)

    def evict(self, topic: MemoryTopic, partition: int, before: int) -> Offset:
        found = topic.partitions[partition]
        with found.lock:
            found.release(before)
            return Offset(found.oldest)

    def seal(self, topic: MemoryTopic, partition: int) -> int:
        del topic, partition
        return 0

    def sync(self, topic: MemoryTopic, partition: int) -> None:
        """Nothing here can be durable."""

    def flush(self) -> None:
        """Nothing here can be durable."""

    # --- keys ---

    def keys(self, topic: MemoryTopic) -> Mapping[str, bytes]:
        with self._lock:
            return dict(topic.keys)

    def get_key(self, topic: MemoryTopic, key: str) -> bytes | None:
        return topic.keys.get(key)

    def put_key(self, topic: MemoryTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        with self._lock:
            if topic.keys.get(key) != expected:
                return False
            topic.keys[key] = value
            return True

    def remove_key(self, topic: MemoryTopic, key: str) -> bool:
        with self._lock:
            return topic.keys.pop(key, None) is not None

    # --- the whole ---

    def claim(self, place: ConsumerPlace) -> LocalClaim:
        return self._claims.take(place)

    def watch(self, find: Callable[[TopicName], MemoryTopic], *, durable_only: bool) -> LocalWatch:
        del durable_only

        def partition_of(topic: TopicName, number: int) -> MemoryPartition:
            found = find(topic)
            return found.partitions[check_partition(number, found.settings.partitions)]

        watch = LocalWatch(self._clock, partition_of, self._watches.discard)
        self._watches.add(watch)
        if self._is_closed:
            # A close in between did not find it.
            watch.close()
        return watch

    def beside(self, name: str) -> str | None:
        del name
        return None

    def size_bytes(self) -> int:
        return sum(
            partition.size_bytes for topic in self.topics() for partition in topic.partitions
        )

    def transaction(
        self, connection: sqlite3.Connection | None
    ) -> AbstractContextManager[sqlite3.Connection]:
        raise InvalidError("a memory: log has no transactions", connection=connection)

    def close(self) -> None:
        self._is_closed = True
        self._claims.close()
        # First, so that no reader takes the end of a partition for a new record.
        for watch in tuple(self._watches):
            watch.close()
        for topic in self.topics():
            for partition in topic.partitions:
                partition.finish(_closed())


def _pages(kept: Sequence[MemoryRecord]) -> Iterator[Sequence[MemoryRecord]]:
    while kept:
        page = kept[:_PAGE_RECORDS]
        page = page[: count_within((each.size_bytes for each in page), _PAGE_BYTES)]
        yield page
        kept = kept[len(page) :]


def _closed() -> ClosedError:
    return ClosedError("the log is closed, open it again")
