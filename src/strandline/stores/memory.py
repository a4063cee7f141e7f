"""A store in the memory of one process: the reference, and the model in tests."""

import threading
from copy import copy
from typing import Final, TypeAlias

from strandline.clock import Clock, SystemClock
from strandline.log.chain import Chain
from strandline.log.claims import ConsumerPlace, LocalClaim, LocalClaims
from strandline.log.draft_columns import size_of
from strandline.log.erased import size_of_tombstone, tombstone
from strandline.log.identities import Identities, IdentityState
from strandline.log.moved import check_unused
from strandline.log.open_state import OpenState, closed_log
from strandline.log.record_lists import ListReads, place
from strandline.log.settled import Settled
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    Erased,
    PartitionState,
    Placement,
    Reach,
    Trimmed,
    dropped,
)
from strandline.log.stored_records import StoredRecords
from strandline.log.topic_table import TableTopic, TopicTable
from strandline.log.watches import Watches
from strandline.values import (
    Durability,
    Epoch,
    Marks,
    Mode,
    Offset,
    StrandlineError,
    Topic,
    TopicSettings,
    ValueKind,
)


class MemoryPartition:
    """Records, and a lock. Implements RecordList and PartitionHead."""

    def __init__(self, chain: Chain, epoch: Epoch, *, is_proved: bool) -> None:
        self.chain = chain
        self.lock: Final = threading.Lock()
        # Invariant: low <= oldest.
        self.records: StoredRecords = StoredRecords(0)
        self.anchor = chain.origin if is_proved else None
        self.low: int = 0
        self.last_us: int = 0
        self.size_bytes: int = 0
        self._epochs = (epoch,)
        self._identities = Identities()
        self.end: StrandlineError | None = None

    @property
    def oldest(self) -> int:
        return self.records.start

    @property
    def next(self) -> int:
        return self.oldest + len(self.records)

    def identities(self, now_us: int) -> Identities:
        self._identities.expire(now_us)
        return self._identities

    def state(self) -> PartitionState:
        self.check_usable()
        # Nothing in memory is durable.
        marks = Marks(Offset(self.low), Offset(self.next), durable=Offset(self.low))
        return PartitionState(marks, Offset(self.oldest), self._epochs)

    def check_usable(self) -> None:
        if self.end is not None:
            raise copy(self.end)

    def add(self, request: AppendRequest, now_us: int) -> Placement:
        self.check_usable()
        value = self.records[-1].value if self.records else self.anchor
        placement, placed = place(self, request, now_us, self.chain, value)
        if placed.drafts:
            self.size_bytes += size_of(placed.drafts)
            self.last_us = placed.timestamp_us
            self.records.add(placed)
        return placement

    def release(self, before: int) -> None:
        """Remove the records before an offset."""
        gone = self.records[: max(0, before - self.oldest)]
        if gone:
            self.anchor = gone[-1].value
            self.size_bytes -= sum(gone.sizes())
            self.records.remove(len(gone))

    def erase(self, kind: ValueKind, key: str, *, dry_run: bool) -> int:
        """Replace the records of a key with tombstones; return how many there are."""
        found = [at for at, known in enumerate(self.records.keys()) if known == key]
        for at in () if dry_run else found:
            old = self.records[at]
            digest = None if old.value is None else self.chain.digest_kept(old)
            body = tombstone(kind, digest)
            size = size_of_tombstone(body)
            self.records.replace(at, old._replace(key=None, body=body, size_bytes=size))
            self.size_bytes += size - old.size_bytes
        return len(found)

    def begin(self, start: int, anchor: bytes | None, identities: Identities) -> None:
        """Begin at an offset, without records."""
        check_unused(self.next)
        self.low, self.records = start, StoredRecords(start)
        self.anchor = anchor if self.anchor is not None else None
        self._identities = identities

    def finish(self, reason: StrandlineError) -> None:
        """Raise `reason` from now on."""
        with self.lock:
            self.end = reason


MemoryTopic: TypeAlias = TableTopic[MemoryPartition]


class MemoryStore:
    """Implements Store. Reaches applied, and no more: nothing here outlives the process."""

    url = "memory:"
    mode = Mode.WRITE
    capabilities: Capabilities = Capabilities(
        Durability.APPLIED,
        "memory is lost with its process",
        Reach.PROCESS,
        has_metrics=True,
        has_erasure=True,
        moves=True,
        trims_at_once=True,
    )

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self.id: Final = self._clock.new_id()
        self._state = OpenState()
        self._table = table = TopicTable(self._clock, self._new_partition)
        self._claims = LocalClaims()
        self._watches: Watches[MemoryPartition, MemoryTopic] = Watches(self._clock, _place, _end)
        self.check_open: Final = self._state.check
        self.topics: Final = table.topics
        self.find_topic: Final = table.find_topic
        self.find_topic_id: Final = table.find_topic_id
        self.create_topic: Final = table.create_topic
        self.change_settings: Final = table.change_settings
        self.keys: Final = table.keys
        self.get_key: Final = table.get_key
        self.put_key: Final = table.put_key
        self.remove_key: Final = table.remove_key
        self.watch: Final = self._watches.open
        self.metrics: Final = self._watches.metrics
        reads = ListReads()
        self.state: Final = reads.state
        self.marks: Final = reads.marks
        self.read: Final = reads.read
        self.read_batches: Final = reads.read_batches
        self.history: Final = reads.history
        self.segments: Final = reads.segments

    def _new_partition(self, topic: Topic, settings: TopicSettings, number: int) -> MemoryPartition:
        chain = Chain(self.id, topic.id, number, settings.value_kind)
        epoch = Epoch(0, self._clock.new_id(), Offset(0))
        return MemoryPartition(chain, epoch, is_proved=settings.proof)

    def drop_topic(self, topic: MemoryTopic) -> None:
        self._table.drop_topic(topic)
        for partition in topic.partitions:
            partition.finish(dropped(topic.topic))
        self._watches.notify_dropped(topic.partitions)

    def append(
        self,
        topic: MemoryTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> Settled:
        del level, timeout_s, may_wait
        found = topic.partitions[partition]
        with found.lock:
            placement = found.add(request, self._clock.now_us())
        self._watches.notify(found, found.next)
        return Settled(placement)

    def trim(self, topic: MemoryTopic, partition: int, low: int) -> Trimmed:
        found = topic.partitions[partition]
        with found.lock:
            found.low = max(found.low, min(low, found.next))
            found.release(found.low)
            return Trimmed(found.state().marks, is_released=True)

    def erase(self, topic: MemoryTopic, partition: int, key: str, *, dry_run: bool) -> Erased:
        found = topic.partitions[partition]
        with found.lock:
            return Erased(found.erase(topic.settings.value_kind, key, dry_run=dry_run))

    def evict(self, topic: MemoryTopic, partition: int, before: int) -> Offset:
        found = topic.partitions[partition]
        with found.lock:
            found.release(before)
            return Offset(found.oldest)

    def identities(self, topic: MemoryTopic, partition: int) -> IdentityState:
        found = topic.partitions[partition]
        with found.lock:
            return found.identities(self._clock.now_us()).state()

    def begin_at(
        self,
        topic: MemoryTopic,
        partition: int,
        start: int,
        anchor: bytes | None,
        identities: IdentityState,
    ) -> None:
        found = topic.partitions[partition]
        with found.lock:
            found.begin(start, anchor, Identities.of(identities, start))

    def claim(self, place: ConsumerPlace) -> LocalClaim:
        return self._claims.take(place)

    def beside(self, name: str) -> str | None:
        del name
        return None

    def size_bytes(self) -> int:
        return sum(
            partition.size_bytes for topic in self.topics() for partition in topic.partitions
        )

    def close(self) -> None:
        self._state.close()
        self._claims.close()
        # First, so that readers do not take the closing of partitions for growth.
        self._watches.close()
        for topic in self.topics():
            for partition in topic.partitions:
                partition.finish(closed_log())


def _place(topic: MemoryTopic, partition: int, durable_only: bool) -> MemoryPartition:
    del durable_only
    return topic.partitions[partition]


def _end(partition: MemoryPartition) -> int | None:
    return None if partition.end is not None else partition.next
