"""A store of one's own: `list:NAME` is a new log, which keeps each partition in a list."""

import threading
from typing import TypeAlias

from strandline import log as port
from strandline import values as v
from strandline.clock import Clock, SystemClock
from strandline.opening import StoreKind


class ListPartition:
    """The records of a partition, and its end. Implements RecordList and PartitionHead."""

    def __init__(self, chain: port.Chain, epoch: v.Epoch, *, is_proved: bool) -> None:
        self.lock = threading.RLock()
        self.chain = chain
        self.anchor = chain.origin if is_proved else None
        self.records: list[port.StoredRecord] = []
        self.low = self.oldest = self.last_us = 0
        self.epoch = epoch
        self.known = port.Identities()
        self.error: v.StrandlineError | None = None

    @property
    def next(self) -> int:
        return self.oldest + len(self.records)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.records)

    def identities(self, now_us: int) -> port.Identities:
        self.known.expire(now_us)
        return self.known

    def state(self) -> port.PartitionState:
        if self.error is not None:
            raise self.error
        low = v.Offset(self.low)
        marks = v.Marks(low, v.Offset(self.next), durable=low)
        return port.PartitionState(marks, v.Offset(self.oldest), (self.epoch,))

    def add(self, request: port.AppendRequest, now_us: int) -> port.Placement:
        self.state()
        value = self.records[-1].value if self.records else self.anchor
        placement, records = port.admit(self, request, now_us, self.chain, value)
        self.records = [*self.records, *records]
        self.last_us = placement.timestamp_us
        return placement

    def release(self, before: int) -> v.Offset:
        gone = self.records[: max(0, before - self.oldest)]
        if gone:
            self.anchor = gone[-1].value
            self.records = self.records[len(gone) :]
            self.oldest += len(gone)
        return v.Offset(self.oldest)


ListTopic: TypeAlias = port.TableTopic[ListPartition]


class ListStore:
    """Implements Store. A partition takes no append that makes it hold over `records_max`."""

    capabilities = port.Capabilities(
        v.Durability.APPLIED, "a list is lost with its process", port.Reach.PROCESS
    )

    def __init__(
        self,
        name: str,
        *,
        mode: v.Mode = v.Mode.WRITE,
        clock: Clock | None = None,
        records_max: int = 1_000_000,
    ) -> None:
        self.url = f"list:{name}"
        self.mode = mode
        self._records_max = records_max
        self._clock = clock if clock is not None else SystemClock()
        self.id = self._clock.new_id()
        # Parts that do all of what they are named for; the port's calls are theirs.
        self._open, self._claims, reads = port.OpenState(), port.LocalClaims(), port.ListReads()
        self._table = table = port.TopicTable(self._clock, self._new_partition)
        self._watches: port.Watches[ListPartition, ListTopic] = port.Watches(
            self._clock, lambda topic, number, _: topic.partitions[number], lambda each: each.next
        )
        self.check_open, self.claim = self._open.check, self._claims.take
        self.watch = self._watches.open
        self.topics, self.create_topic = table.topics, table.create_topic
        self.find_topic, self.find_topic_id = table.find_topic, table.find_topic_id
        self.change_settings, self.keys = table.change_settings, table.keys
        self.get_key, self.put_key = table.get_key, table.put_key
        self.remove_key = table.remove_key
        self.state, self.marks, self.segments = reads.state, reads.marks, reads.segments
        self.read, self.read_batches, self.history = reads.read, reads.read_batches, reads.history

    def _new_partition(
        self, topic: v.Topic, settings: v.TopicSettings, number: int
    ) -> ListPartition:
        chain = port.Chain(self.id, topic.id, number, settings.value_kind)
        epoch = v.Epoch(0, self._clock.new_id(), v.Offset(0))
        return ListPartition(chain, epoch, is_proved=settings.proof)

    def drop_topic(self, topic: ListTopic) -> None:
        self._table.drop_topic(topic)
        for each in topic.partitions:
            each.error = port.dropped(topic.topic)
        self._watches.notify_dropped(topic.partitions)

    def append(
        self, topic: ListTopic, partition: int, request: port.AppendRequest,
        level: v.Durability, timeout_s: float | None, *, may_wait: bool = True,
    ) -> port.Settled:  # fmt: skip
        found = topic.partitions[partition]
        with found.lock:
            if len(found.records) + len(request.drafts) > self._records_max:
                raise v.UnavailableError("the partition is full, trim it", write=request)
            placement = found.add(request, self._clock.now_us())
        self._watches.notify(found, found.next)
        return port.Settled(placement)

    def trim(self, topic: ListTopic, partition: int, low: int) -> port.Trimmed:
        found = topic.partitions[partition]
        with found.lock:
            found.low = max(found.low, min(low, found.next))
            found.release(found.low)
            return port.Trimmed(found.state().marks, is_released=True)

    def evict(self, topic: ListTopic, partition: int, before: int) -> v.Offset:
        found = topic.partitions[partition]
        with found.lock:
            return found.release(before)

    def beside(self, name: str) -> str | None:
        return None

    def size_bytes(self) -> int:
        return sum(each.size_bytes for topic in self.topics() for each in topic.partitions)

    def close(self) -> None:
        self._open.close()
        self._claims.close()
        self._watches.close()


KIND = StoreKind(ListStore, "list:NAME", frozenset({"records_max"}))
