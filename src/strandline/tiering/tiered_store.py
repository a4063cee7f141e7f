"""A store over a log's own store and its tier, which reads both as one."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, cast

import pyarrow as pa

from strandline.clock import Clock
from strandline.log import Log
from strandline.log.arrow_streams import ARROW_STREAMS
from strandline.log.columns import narrowed
from strandline.log.draft import size_of
from strandline.log.history import Damage, History, Piece
from strandline.log.ranges import ReadRange
from strandline.log.results import Batches
from strandline.log.selecting_store import RecordBound, SelectingStore
from strandline.log.sources import source_of
from strandline.log.store import (
    DurableStore,
    Erased,
    ErasingStore,
    MeasuredStore,
    MovableStore,
    PartitionState,
    SegmentedStore,
    Store,
    StoredTopic,
    TransactionalStore,
    Trimmed,
)
from strandline.tiering.cold_history import ColdHistory
from strandline.tiering.cold_reading import TieredReading, Wanted
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.cold_selecting import first_cold_meeting
from strandline.tiering.erasing import erase_copies
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore, open_store
from strandline.tiering.removal import remove_dropped, remove_trimmed
from strandline.tiering.segment import CopiedSegment, partition_of
from strandline.values import (
    CorruptError,
    Durability,
    InvalidError,
    Offset,
    ProofFinding,
    Record,
    Segment,
    StrandlineError,
    Topic,
    TrimmedError,
    UnavailableError,
)
from strandline.values.prompt import prompt_text
from strandline.values.widening import fitted_batch

_logger = logging.getLogger("strandline")
#: The iterator type of a list in memory, which no trim can overtake.
_READ_AT_ONCE = type(iter(list[Record]()))


class Tier:
    """The tier of a log, for `Log(store, tier=Tier())`: see `tier`.

    Object stores are not accessed until an evicted record is read; that needs the extra
    `tiering`.
    """

    def __init__(self, open_objects: Callable[[str], ObjectStore] = open_store) -> None:
        self._open_objects = open_objects
        self._over: TieredStore | None = None

    def __repr__(self) -> str:
        return prompt_text("Tier", attached=self._over is not None)

    def over(self, store: Store[StoredTopic], clock: Clock) -> Store[StoredTopic]:
        """Return a store that reads from `store` and the tier."""
        self._over = TieredStore(store, clock, self._open_objects)
        return cast("Store[StoredTopic]", self._over)

    def footers(
        self, topic: Topic, partition: int, start: int, end: int
    ) -> Iterator[tuple[int, int, Footer | None]]:
        """Yield the parts of [start, end) that only the tier has, with each object's footer."""
        assert self._over is not None
        return self._over.footers(topic, partition, start, end)

    def columns(
        self, topic: Topic, partition: int, start: int, end: int, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield [start, end) with only these columns, from the store or the tier."""
        assert self._over is not None
        return self._over.columns(topic, partition, start, end, schema)


class TieredStore:
    """Implements Store over a store and the copies of what it has evicted.

    Everything not defined here is the underlying store's own. Marks, cursors and positions
    cover both.
    """

    def __init__(
        self,
        hot: Store[StoredTopic],
        clock: Clock,
        open_objects: Callable[[str], ObjectStore] = open_store,
    ) -> None:
        self._hot = hot
        self._log = Log(hot, clock=clock)
        self._cold = ColdSegments(self._log, open_objects)
        self._open_objects = open_objects
        self.id: Final = hot.id
        self.mode: Final = hot.mode
        self.url: Final = hot.url
        self.capabilities: Final = replace(hot.capabilities, has_selection=True)
        self.check_open: Final = hot.check_open
        self.topics: Final = hot.topics
        self.find_topic: Final = hot.find_topic
        self.find_topic_id: Final = hot.find_topic_id
        self.create_topic: Final = hot.create_topic
        self.change_settings: Final = hot.change_settings
        self.append: Final = hot.append
        self.shortcut: Final = getattr(hot, "shortcut", None)
        self.follower: Final = getattr(hot, "follower", None)
        self.remembered: Final = getattr(hot, "remembered", None)
        self.writers: Final = getattr(hot, "writers", None)
        self.staged_layout: Final = getattr(hot, "staged_layout", None)
        self.ingest: Final = getattr(hot, "ingest", None)
        self.discard: Final = getattr(hot, "discard", None)
        self.marks: Final = hot.marks
        self.keys: Final = hot.keys
        self.get_key: Final = hot.get_key
        self.put_key: Final = hot.put_key
        self.remove_key: Final = hot.remove_key
        self.claim: Final = hot.claim
        self.watch: Final = hot.watch
        self.beside: Final = hot.beside
        self.size_bytes: Final = hot.size_bytes
        if hot.capabilities.durability_max is Durability.DURABLE:
            durable = cast("DurableStore[StoredTopic]", hot)
            self.sync: Final = durable.sync
            self.flush: Final = durable.flush
        if hot.capabilities.has_metrics:
            self.metrics: Final = cast("MeasuredStore", hot).metrics
        if hot.capabilities.has_segments:
            self.seal: Final = cast("SegmentedStore[StoredTopic]", hot).seal
        if hot.capabilities.has_sources:
            self.offset_since: Final = source_of(hot).offset_since
        if hot.capabilities.has_transactions:
            self.transaction: Final = cast("TransactionalStore", hot).transaction
        if hot.capabilities.moves:
            movable = cast("MovableStore[StoredTopic]", hot)
            self.identities: Final = movable.identities
            self.begin_at: Final = movable.begin_at
        self.close: Final = hot.close

    # --- reading ---

    def state(self, topic: StoredTopic, partition: int) -> PartitionState:
        # Records that the store has evicted are in the tier.
        state = self._hot.state(topic, partition)
        return state._replace(oldest=state.marks.low)

    def read(self, topic: StoredTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        try:
            found = self._hot.read(topic, partition, wanted)
        except TrimmedError as error:
            return self._reading(topic, partition, wanted, error).records()
        if type(found) is _READ_AT_ONCE:
            return found
        return self._going_on(found, topic, partition, wanted)

    def _going_on(
        self, found: Iterator[Record], topic: StoredTopic, partition: int, wanted: ReadRange
    ) -> Iterator[Record]:
        """Yield the store's records; continue from the tier if an eviction overtakes the read."""
        at = wanted.start
        try:
            if wanted.bytes_max is None:
                yield from found
            else:
                for record in found:
                    yield record
                    at = record.offset + 1
        except TrimmedError as error:
            if wanted.bytes_max is None:
                at = cast("int", error.fields["offset"])
            whole = wanted._replace(end=self._stop(topic, partition, wanted), records_max=None)
            reading = self._reading(topic, partition, whole, error)
            yield from (record for record in reading.records() if record.offset >= at)

    def read_batches(self, topic: StoredTopic, partition: int, wanted: ReadRange) -> Batches:
        try:
            found = self._hot.read_batches(topic, partition, wanted)
        except TrimmedError as error:
            return self._reading(topic, partition, wanted, error).batches()
        return _HotBatches(self, found, (topic, partition, wanted))

    def batches_from(
        self,
        topic: StoredTopic,
        partition: int,
        wanted: ReadRange,
        error: TrimmedError,
        *,
        schema: pa.Schema,
        at: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rest of a read of batches that a trim or an eviction has overtaken."""
        whole = wanted._replace(end=self._stop(topic, partition, wanted), records_max=None)
        return self._reading(topic, partition, whole, error).columns(schema, at)

    def _reading(
        self, topic: StoredTopic, partition: int, wanted: ReadRange, error: TrimmedError
    ) -> TieredReading:
        """Return a read that begins in the tier, or raise as the contract says."""
        state = self._hot.state(topic, partition)
        if wanted.start < state.marks.low:
            raise TrimmedError(state.marks.low, partition=partition, offset=wanted.start) from error
        if wanted.end is not None and wanted.end < wanted.start:
            raise InvalidError("the end lies before the start", start=wanted.start, end=wanted.end)
        cold = Wanted(
            partition_of(topic.topic, partition),
            topic.settings.value_kind,
            wanted.start,
            wanted.stop(state.marks),
            wanted.bytes_max,
            wanted.durable_only,
        )
        return TieredReading(self._log, self._cold, cold, state.epochs)

    def _stop(self, topic: StoredTopic, partition: int, wanted: ReadRange) -> int:
        return wanted.stop(self._hot.marks(topic, partition))

    def segments(self, topic: StoredTopic, partition: int) -> Sequence[Segment]:
        runs = self._hot.segments(topic, partition)
        cold = self._cold_segments(topic, partition)
        return [*cold, *runs] if cold else runs

    def _cold_segments(self, topic: StoredTopic, partition: int) -> list[Segment]:
        while True:
            try:
                return [*self._kept_copies(topic, partition)]
            except TrimmedError:
                continue  # A trim has overtaken the read.

    def _kept_copies(self, topic: StoredTopic, partition: int) -> Iterator[Segment]:
        place, state = partition_of(topic.topic, partition), self._hot.state(topic, partition)
        at = int(state.marks.low)
        if at < state.oldest:
            self._cold.catch_up(place)  # It may have been merged meanwhile.
        for copied in self._cold.chain(place, state.epochs, at, state.oldest):
            end = min(copied.end, state.oldest)
            first_us, size_bytes = copied.first_us, copied.record_bytes
            if (at, end) != (copied.start, copied.end):
                first_us, size_bytes = self._measured(topic, partition, copied, at, end)
            yield Segment(
                *(Offset(at), Offset(end), size_bytes, first_us, copied.last_us),
                is_sealed=True,
                location=copied.location,
            )
            at = end

    def _measured(
        self, topic: StoredTopic, partition: int, copied: CopiedSegment, start: int, end: int
    ) -> tuple[int, int]:
        """Return the first timestamp and the size of a part of a copy.

        An estimate if the object cannot be read, so that an append or a listing can continue.
        """
        try:
            kept = list(self.read(topic, partition, ReadRange(start, end)))
        except (CorruptError, UnavailableError):
            share = copied.record_bytes * (end - start) // (copied.end - copied.start)
            return copied.first_us, share
        return kept[0].timestamp_us, sum(map(size_of, kept))

    def history(self, topic: StoredTopic, partition: int, start: int, end: int | None) -> History:
        stored = self._hot.history(topic, partition, start, end)
        state = self._hot.state(topic, partition)
        low = max(start, state.marks.low)
        if stored.low <= low:
            return stored
        place = partition_of(topic.topic, partition)
        cold = ColdHistory(self._cold, place, state.epochs, stored)
        stop = stored.low if end is None else max(low, min(end, stored.low))
        pieces: Iterator[Piece | Damage | ProofFinding] = cold.pieces(low, stop)
        high = stop
        if stop == stored.low:
            pieces = chain(pieces, [Piece((), stored.anchor)], stored.pieces)
            high = stored.high
        return stored._replace(low=low, high=high, anchor=cold.value_before(low), pieces=pieces)

    def footers(
        self, topic: Topic, partition: int, start: int, end: int
    ) -> Iterator[tuple[int, int, Footer | None]]:
        """Yield the parts of [start, end) that only the tier has, with each object's footer."""
        found = self._hot.find_topic(topic.tenant, topic.name)
        if found is None:
            return
        place, state = partition_of(topic, partition), self._hot.state(found, partition)
        at, stop = max(start, state.marks.low), min(end, state.oldest)
        while at < stop:
            segment, footer = self._cold.with_footer(place, state.epochs, at)
            following = min(segment.end, stop)
            yield at, following, footer
            at = following

    def first_meeting(
        self, topic: StoredTopic, partition: int, start: int, bounds: Sequence[RecordBound]
    ) -> int:
        state = self._hot.state(topic, partition)
        if state.marks.low <= start < state.oldest:
            try:
                footers = self.footers(topic.topic, partition, start, state.oldest)
                return first_cold_meeting(start, footers, bounds)
            except TrimmedError:
                return start  # A trim has overtaken it; reading raises the error.
        if not self._hot.capabilities.has_selection:
            return start
        hot = cast("SelectingStore[StoredTopic]", self._hot)
        return hot.first_meeting(topic, partition, start, bounds)

    def columns(
        self, topic: Topic, partition: int, start: int, end: int, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield [start, end) with only these columns, from the store or the tier."""
        found = self._hot.find_topic(topic.tenant, topic.name)
        if found is None or found.topic != topic:
            raise InvalidError("this topic was dropped", topic=topic.name)
        if found.settings.source is not None:
            hot = self._hot.read_batches(found, partition, ReadRange(start, end))
            return (fitted_batch(batch, schema) for batch in hot)
        state = self._hot.state(found, partition)
        place, kind = partition_of(topic, partition), found.settings.value_kind
        cold = Wanted(place, kind, start, end, None, durable_only=False)
        return TieredReading(self._log, self._cold, cold, state.epochs).columns(schema, start, end)

    # --- removing ---

    def evict(self, topic: StoredTopic, partition: int, before: int) -> Offset:
        oldest = self._hot.state(topic, partition).oldest
        if before > oldest and before > self._cold.evicted(partition_of(topic.topic, partition)):
            raise InvalidError(
                "only what was copied may be evicted, see tier", before=before, oldest=oldest
            )
        return self._hot.evict(topic, partition, before)

    def erase(self, topic: StoredTopic, partition: int, key: str, *, dry_run: bool) -> Erased:
        hot = cast("ErasingStore[StoredTopic]", self._hot)
        place = partition_of(topic.topic, partition)
        done = hot.erase(topic, partition, key, dry_run=dry_run)
        if not self._cold.listed(place):
            return done
        oldest = self._hot.state(topic, partition).oldest
        cold = erase_copies(self._log, place, key, oldest, self._open_objects, dry_run=dry_run)
        self._cold.release(place)
        return Erased(done.records + cold, done.is_released)

    def trim(self, topic: StoredTopic, partition: int, low: int) -> Trimmed:
        trimmed = self._hot.trim(topic, partition, low)
        with _left_to_the_next_run():
            copies = self._cold.listed(partition_of(topic.topic, partition))
            if any(copied.end <= trimmed.marks.low for copied in copies):
                remove_trimmed(self._log, topic.topic, self._open_objects)
        return trimmed

    def drop_topic(self, topic: StoredTopic) -> None:
        self._hot.drop_topic(topic)
        with _left_to_the_next_run():
            numbers = range(topic.settings.partitions)
            if any(self._cold.listed(partition_of(topic.topic, each)) for each in numbers):
                remove_dropped(self._log, topic.topic, self._open_objects)


class _HotBatches:
    """Implements Batches for the store's records at the start of the read."""

    def __init__(
        self, store: TieredStore, hot: Batches, wanted: tuple[StoredTopic, int, ReadRange]
    ) -> None:
        self._store = store
        self._hot = hot
        self._wanted = wanted

    @property
    def schema(self) -> pa.Schema:
        return self._hot.schema

    def __repr__(self) -> str:
        return repr(self._hot)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._followed(iter(self._hot), self.schema)

    def narrowed(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See NarrowingBatches."""
        # The offsets show where to continue in the tier.
        read = list(names) if "_offset" in names else [*names, "_offset"]
        schema = pa.schema([self.schema.field(name) for name in read])
        found = self._followed(narrowed(self._hot, read), schema)
        return found if len(read) == len(names) else (batch.select(names) for batch in found)

    def _followed(
        self, hot: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the store's batches, and then from the tier what was evicted meanwhile."""
        wanted = self._wanted[2]
        last: pa.RecordBatch | None = None
        try:
            for last in hot:
                yield last
        except TrimmedError as error:
            at = wanted.start if last is None else last.column("_offset")[-1].as_py() + 1
            yield from self._store.batches_from(*self._wanted, error, schema=schema, at=at)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = ARROW_STREAMS.reader(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)


@contextlib.contextmanager
def _left_to_the_next_run() -> Iterator[None]:
    """Log errors: the records are gone already, and a later run deletes the objects."""
    try:
        yield
    except StrandlineError as error:
        _logger.warning("objects in the tier are left to the next run: %s", error)
