"""Which records are kept: the rules of trimming and retention. See LogWriter."""

from bisect import bisect_left
from collections.abc import Sequence

from strandline.clock import Clock
from strandline.log.cursors import ConsumerCursors
from strandline.log.draft import size_of
from strandline.log.ranges import ReadRange, check_not_beyond
from strandline.log.sources import source_of
from strandline.log.store import PartitionState, Store, StoredTopic
from strandline.log.terms import check_durable, latest_before
from strandline.values import (
    Durability,
    Offset,
    Partition,
    Record,
    Segment,
    TopicSettings,
    TrimReport,
)
from strandline.values.arguments import INT64_MAX


class Retention:
    """Trims partitions. Any thread may use it."""

    def __init__(self, store: Store[StoredTopic], cursors: ConsumerCursors, clock: Clock) -> None:
        self._store = store
        self._cursors = cursors
        self._clock = clock

    def trim(
        self, topic: StoredTopic, partition: int, before: int, *, force: bool, least: int = 0
    ) -> TrimReport:
        """Trim to `before`, but not past the slowest consumer; to `least` in any case."""
        marks = self._store.state(topic, partition).marks
        check_not_beyond(marks, before, topic.topic, partition)
        before = max(before, least)
        held_at = None if force else self._cursors.held_at(topic, partition)
        if held_at is not None and max(held_at, least) >= before:
            held_at = None
        low = max(int(marks.low), before if held_at is None else held_at, least)
        after, is_released = marks, True
        if low > marks.low:
            after, is_released = self._store.trim(topic, partition, low)
        return TrimReport(
            *(Partition(partition), after.low - marks.low, after.high - after.low, after.low),
            *(held_at, latest_before(after.high), is_released),
        )

    def evict(self, topic: StoredTopic, partition: Partition, before: int) -> Offset:
        """Remove records before an offset from the store alone, provided they are durable."""
        marks = self._store.marks(topic, partition)
        if self._store.capabilities.durability_max is Durability.DURABLE:
            check_durable(before, marks.durable)
        else:
            check_not_beyond(marks, before, topic.topic, partition)
        return self._store.evict(topic, partition, before)

    def apply(
        self, topic: StoredTopic, partition: int, *, records_max: int = INT64_MAX
    ) -> TrimReport:
        """Trim to the topic's retention, removing at most `records_max` records."""
        settings = topic.settings
        state = self._store.state(topic, partition)
        least = 0
        if settings.limit_bytes is not None:
            least = self._first_within(topic, partition, settings.limit_bytes)
        before = self._retained_from(topic, partition, settings, state)
        most = state.marks.low + records_max
        return self.trim(topic, partition, min(before, most), force=False, least=min(least, most))

    def _retained_from(
        self, topic: StoredTopic, partition: int, settings: TopicSettings, state: PartitionState
    ) -> int:
        before = int(state.marks.low)
        if settings.retention_age_s is not None:
            oldest_us = self._clock.now_us() - settings.retention_age_s * 1_000_000
            aged = offset_at(self._store, topic, partition, oldest_us)
            # Evicted records may be younger than the age limit.
            if aged > state.oldest:
                before = max(before, aged)
        if settings.retention_bytes is not None:
            before = max(before, self._first_within(topic, partition, settings.retention_bytes))
        return before

    def _first_within(self, topic: StoredTopic, partition: int, bytes_max: int) -> int:
        """Return the lowest offset from which at most `bytes_max` remain, or the last record's."""
        runs = self._store.segments(topic, partition)
        if not runs:
            return 0
        before, last = int(runs[0].start), runs[-1].end - 1
        over = sum(run.size_bytes for run in runs) - bytes_max
        for run in runs:
            if over <= 0 or before >= last:
                break
            if over >= run.size_bytes and run.end <= last:
                over, before = over - run.size_bytes, int(run.end)
                continue
            for record in self._store.read(topic, partition, ReadRange(run.start, run.end)):
                if over <= 0 or record.offset >= last:
                    break
                over -= size_of(record)
                before = record.offset + 1
            break
        return before


def offset_at(
    store: Store[StoredTopic], topic: StoredTopic, partition: int, timestamp_us: int
) -> Offset:
    """Return the first offset with this timestamp or a later one; the end if there is none.

    Timestamps never fall within a partition, so a binary search finds it.
    """
    if topic.settings.source is not None:
        return source_of(store).offset_since(topic, partition, timestamp_us)
    for run in store.segments(topic, partition):
        if run.last_timestamp_us < timestamp_us:
            continue
        if run.first_timestamp_us >= timestamp_us:
            return run.start
        return Offset(_first_since(store, topic, partition, run, timestamp_us))
    return store.state(topic, partition).marks.high


def _first_since(
    store: Store[StoredTopic], topic: StoredTopic, partition: int, run: Segment, timestamp_us: int
) -> int:
    def stamp(offset: int) -> int:
        found: Sequence[Record] = list(store.read(topic, partition, ReadRange(offset, offset + 1)))
        return found[0].timestamp_us

    return bisect_left(range(run.end), timestamp_us, lo=run.start, key=stamp)
