"""A log over hot frames and cold Parquet, that reads as one."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol, TypeAlias, cast

import pyarrow as pa

from strandline.clock import Clock, SystemClock
from strandline.log import Batches, Damage, History, Log, Piece, TopicName
from strandline.tiering.arrow_parts import compute
from strandline.tiering.cold_history import ColdHistory
from strandline.tiering.cold_reading import TieredReading, Wanted
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore, open_store
from strandline.tiering.removal import remove_dropped, remove_trimmed
from strandline.tiering.segment import UserPartition, partition_of
from strandline.tiering.sizes import size_of
from strandline.values import (
    Durability,
    InvalidError,
    Mode,
    Offset,
    ProofFinding,
    Record,
    Segment,
    StrandlineError,
    Topic,
    TopicDescription,
    TopicSettings,
    TrimmedError,
    TrimReport,
)
from strandline.values.arguments import check_limit, check_whole

_logger = logging.getLogger("strandline")
#: What is in memory no trim can overtake.
_READ_AT_ONCE = type(iter(list[Record]()))


class TieredLog(Log, Protocol):
    """A log whose older records may be in an object store; see `tier`.

    A backend becomes one by inheriting from it, before its own class: the backend is the
    hot half, and everything but what is here is its own. Marks, cursors and positions
    span both halves. Nothing is asked of a store before a record is wanted that the hot
    half has let go of; asking then needs the extra `tiering`.
    """

    clock: Clock = SystemClock()
    """What retention by age goes by."""
    _cold_segments: ColdSegments | None = None

    # --- reading ---

    def read(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        records_max: int | None = None,
        bytes_max: int | None = None,
        durable_only: bool = False,
    ) -> Iterator[Record]:
        wanted = (start, end, records_max, bytes_max)
        try:
            found = super().read(  # type: ignore[safe-super]
                topic,
                partition,
                start,
                end,
                records_max=records_max,
                bytes_max=bytes_max,
                durable_only=durable_only,
            )
        except TrimmedError as error:
            reading = self.reading(topic, partition, wanted, error, durable_only=durable_only)
            return reading.records()
        if type(found) is _READ_AT_ONCE:
            return found
        if bytes_max is None:
            return self._going_on(found, topic, partition, wanted, durable_only=durable_only)
        return self._counting_on(found, topic, partition, wanted, durable_only=durable_only)

    def _going_on(
        self,
        found: Iterator[Record],
        topic: TopicName,
        partition: int,
        wanted: "_Limits",
        *,
        durable_only: bool,
    ) -> Iterator[Record]:
        """Yield what the hot half yields, and go on from the cold one if it is overtaken."""
        try:
            yield from found
        except TrimmedError as error:
            stop = self.stop_of(topic, partition, wanted, durable_only=durable_only)
            at = cast("int", error.fields["offset"])
            rest = (at, stop, None, None)
            yield from self.reading(
                topic, partition, rest, error, durable_only=durable_only
            ).records()

    def _counting_on(
        self,
        found: Iterator[Record],
        topic: TopicName,
        partition: int,
        wanted: "_Limits",
        *,
        durable_only: bool,
    ) -> Iterator[Record]:
        """Do the same within a number of bytes: what was yielded is counted."""
        at = wanted[0]
        try:
            for record in found:
                yield record
                at = record.offset + 1
        except TrimmedError as error:
            stop = self.stop_of(topic, partition, wanted, durable_only=durable_only)
            whole = (wanted[0], stop, None, wanted[3])
            reading = self.reading(topic, partition, whole, error, durable_only=durable_only)
            yield from (record for record in reading.records() if record.offset >= at)

    def read_batches(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        records_max: int | None = None,
        bytes_max: int | None = None,
        durable_only: bool = False,
    ) -> Batches:
        wanted = (start, end, records_max, bytes_max)
        try:
            found = _hot(self).read_batches(
                topic,
                partition,
                start,
                end,
                records_max=records_max,
                bytes_max=bytes_max,
                durable_only=durable_only,
            )
        except TrimmedError as error:
            reading = self.reading(topic, partition, wanted, error, durable_only=durable_only)
            return reading.batches()
        return _HotBatches(self, found, (topic, partition, wanted, durable_only))

    def reading(
        self,
        topic: TopicName,
        partition: int,
        wanted: "_Limits",
        error: TrimmedError,
        *,
        durable_only: bool,
    ) -> TieredReading:
        """Return a read that begins in the cold half, or raise as the contract says."""
        start, end, _, bytes_max = wanted
        hot = _hot(self)
        marks = hot.marks(topic, partition)
        if start < marks.low:
            raise TrimmedError(marks.low, partition=partition, offset=start) from error
        if end is not None and end < start:
            raise InvalidError("the end lies before the start", start=start, end=end)
        stop = self.stop_of(topic, partition, wanted, durable_only=durable_only)
        found = hot.topic(topic)
        asked = Wanted(
            partition_of(found, partition),
            hot.describe_topic(found).settings.value_kind,
            start,
            max(start, stop),
            bytes_max,
            durable_only,
        )
        return TieredReading(hot, self._cold(), asked, hot.epochs(topic, partition))

    def stop_of(
        self, topic: TopicName, partition: int, wanted: "_Limits", *, durable_only: bool
    ) -> int:
        start, end, records_max, _ = wanted
        hot = _hot(self)
        marks = hot.marks(topic, partition)
        if durable_only and hot.durability_max is not Durability.DURABLE:
            hot.read(topic, partition, marks.high, durable_only=True)
        stop = int(marks.durable if durable_only else marks.high)
        if end is not None:
            stop = min(stop, end)
        return stop if records_max is None else min(stop, start + records_max)

    def offset_at(self, topic: TopicName, partition: int, timestamp_us: int) -> Offset:
        hot = _hot(self)
        found = hot.offset_at(topic, partition, timestamp_us)
        low, local = self._cold_run(topic, partition)
        if low < local:
            place = partition_of(hot.topic(topic), partition)
            epochs = hot.epochs(topic, partition)
            for segment in self._cold().chain(place, epochs, low, local):
                if segment.last_us >= timestamp_us:
                    offset = self._first_since(place, max(low, segment.start), timestamp_us)
                    return Offset(offset)
        return found

    def _first_since(self, place: UserPartition, start: int, timestamp_us: int) -> int:
        """Return the first offset from `start` on that is not older; its segment has one."""
        epochs = _hot(self).epochs(place.named(), place.partition)
        segment, rows = self._cold().fetched(place, epochs, start)
        for batch in rows.batches(start, segment.end, ["_offset", "_timestamp"]):
            stamps = batch.column("_timestamp").cast("int64")
            late = compute().index(compute().greater_equal(stamps, timestamp_us), True).as_py()
            if late >= 0:
                offset: int = batch.column("_offset")[late].as_py()
                return offset
        return segment.end

    def segments(self, topic: TopicName, partition: int) -> Sequence[Segment]:
        runs = _hot(self).segments(topic, partition)
        cold = self._cold_segments_of(topic, partition)
        return [*cold, *runs] if cold else runs

    def _cold_segments_of(self, topic: TopicName, partition: int) -> list[Segment]:
        hot = _hot(self)
        low, local = self._cold_run(topic, partition)
        found: list[Segment] = []
        if low >= local:
            return found
        place = partition_of(hot.topic(topic), partition)
        epochs = hot.epochs(topic, partition)
        at = low
        for copied in self._cold().chain(place, epochs, low, local):
            end = min(copied.end, local)
            first_us, size_bytes = copied.first_us, copied.record_bytes
            if (at, end) != (copied.start, copied.end):
                kept = list(self.read(place.named(), partition, at, end))
                first_us, size_bytes = kept[0].timestamp_us, sum(map(size_of, kept))
            found.append(
                Segment(
                    Offset(at),
                    Offset(end),
                    size_bytes,
                    first_us,
                    copied.last_us,
                    is_sealed=True,
                    location=copied.location,
                )
            )
            at = end
        return found

    def describe_topic(self, topic: TopicName) -> TopicDescription:
        told = _hot(self).describe_topic(topic)
        cold = sum(
            run.size_bytes
            for number in range(told.settings.partitions)
            for run in self._cold_segments_of(told.topic, number)
        )
        return replace(told, size_bytes=told.size_bytes + cold)

    def history(
        self, topic: TopicName, partition: int, start: int = 0, end: int | None = None
    ) -> History:
        hot = _hot(self)
        start, end = check_whole("start", start), check_limit("end", end)
        stored = hot.history(topic, partition, start, end)
        low = max(start, hot.marks(topic, partition).low)
        if stored.low <= low:
            return stored
        told = hot.describe_topic(topic)
        place = partition_of(told.topic, partition)
        cold = ColdHistory(self._cold(), place, hot.epochs(topic, partition), stored)
        stop = stored.low if end is None else max(low, min(end, stored.low))
        pieces: Iterator[Piece | Damage | ProofFinding] = cold.pieces(low, stop)
        high = stop
        if stop == stored.low:
            pieces = chain(pieces, [Piece((), stored.anchor)], stored.pieces)
            high = stored.high
        return stored._replace(low=low, high=high, anchor=cold.value_before(low), pieces=pieces)

    def cold_footers(
        self, topic: TopicName, partition: int, start: int, end: int
    ) -> Iterator[tuple[int, int, Footer | None]]:
        """Yield what of [start, end) the cold half alone has, with each object's footer."""
        hot, cold = _hot(self), self._cold()
        start, end = check_whole("start", start), check_whole("end", end)
        low, local = self._cold_run(topic, partition)
        place = partition_of(hot.topic(topic), partition)
        at, stop = max(start, low), min(end, local)
        for segment in cold.chain(place, hot.epochs(topic, partition), at, stop):
            following = min(segment.end, stop)
            yield at, following, cold.footer(segment)
            at = following

    # --- removing ---

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        hot = _hot(self)
        before = check_whole("before", before)
        local = self._cold_run(topic, partition)[1]
        if before > local and hot.mode is Mode.WRITE:
            place = partition_of(hot.topic(topic), partition)
            if before > self._cold().evicted(place):
                raise InvalidError(
                    "only what was copied may be evicted, see tier", before=before, oldest=local
                )
        return hot.evict(topic, partition, before)

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        report = _hot(self).trim(topic, partition, before, force=force)
        if report.removed:
            self._delete_trimmed(topic)
        return report

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        hot = _hot(self)
        told = hot.describe_topic(topic)
        runs = [self._cold_run(topic, each) for each in range(told.settings.partitions)]
        if all(low >= local for low, local in runs):
            reports = hot.apply_retention(topic)
        else:
            reports = [
                self._retain(told.topic, each, told.settings)
                for each in range(told.settings.partitions)
            ]
        if any(report.removed for report in reports):
            self._delete_trimmed(topic)
        return reports

    def _retained_from(self, topic: Topic, partition: int, settings: TopicSettings) -> int:
        """Return the offset before which retention wants nothing kept, in either half."""
        marks = _hot(self).marks(topic, partition)
        before = int(marks.low)
        if settings.retention_age_s is not None:
            oldest_us = self.clock.now_us() - settings.retention_age_s * 1_000_000
            before = max(before, self.offset_at(topic, partition, oldest_us))
        if settings.retention_bytes is not None:
            before = max(before, self._first_within(topic, partition, settings.retention_bytes))
        return before

    def _retain(self, topic: Topic, partition: int, settings: TopicSettings) -> TrimReport:
        hot = _hot(self)
        low = hot.marks(topic, partition).low
        if settings.limit_bytes is not None:
            limited = self._first_within(topic, partition, settings.limit_bytes)
            hot.trim(topic, partition, limited, force=True)
        report = hot.trim(topic, partition, self._retained_from(topic, partition, settings))
        return replace(report, removed=report.low - low)

    def _first_within(self, topic: Topic, partition: int, bytes_max: int) -> int:
        """Return the offset from which on at most `bytes_max` are kept, or the last record is."""
        runs = self.segments(topic, partition)
        before = int(runs[0].start) if runs else 0
        last = runs[-1].end - 1 if runs else 0
        over = sum(run.size_bytes for run in runs) - bytes_max
        for run in runs:
            if over >= run.size_bytes and run.end <= last:
                over, before = over - run.size_bytes, run.end
                continue
            for record in self.read(topic, partition, run.start, run.end):
                if over <= 0 or record.offset >= last:
                    break
                over -= size_of(record)
                before = record.offset + 1
            break
        return before

    def drop_topic(self, topic: TopicName) -> None:
        hot = _hot(self)
        told = hot.describe_topic(topic)
        hot.drop_topic(topic)
        cold = self._cold()
        places = [partition_of(told.topic, each) for each in range(told.settings.partitions)]
        if any(cold.listed(place) for place in places):
            self._follow_up(remove_dropped, told.topic)

    def _delete_trimmed(self, topic: TopicName) -> None:
        hot = _hot(self)
        told = hot.describe_topic(topic)
        for number, marks in enumerate(told.marks):
            copies = self._cold().listed(partition_of(told.topic, number))
            if any(copied.end <= marks.low for copied in copies):
                self._follow_up(remove_trimmed, told.topic)
                return

    def _follow_up(self, remove: "_Remove", topic: Topic) -> None:
        """Delete objects now; what fails is found again by the next run of tiering."""
        try:
            remove(self, topic, self._open_store)
        except StrandlineError as error:
            _logger.warning("objects in the tier are left to the next run: %s", error)

    # --- inside ---

    def _cold_run(self, topic: TopicName, partition: int) -> tuple[int, int]:
        """Return from where to where the records are in the cold half alone."""
        hot = _hot(self)
        low = int(hot.marks(topic, partition).low)
        try:
            hot.read(topic, partition, low, low)
        except TrimmedError as error:
            return int(hot.marks(topic, partition).low), error.oldest
        return low, low

    def _cold(self) -> ColdSegments:
        if self._cold_segments is None:
            self._cold_segments = ColdSegments(_hot(self), self._open_store)
        return self._cold_segments

    def _open_store(self, url: str) -> ObjectStore:
        return open_store(url)


_Limits: TypeAlias = tuple[int, int | None, int | None, int | None]
"""Start, end, records_max and bytes_max of a read."""
_Remove: TypeAlias = Callable[[Log, Topic, Callable[[str], ObjectStore]], int]


class _HotBatches:
    """Implements Batches for what the hot half had when it was asked."""

    def __init__(
        self, log: TieredLog, hot: Batches, asked: tuple[TopicName, int, _Limits, bool]
    ) -> None:
        self._log = log
        self._hot = hot
        self._asked = asked

    @property
    def schema(self) -> pa.Schema:
        return self._hot.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        topic, partition, wanted, durable_only = self._asked
        last: pa.RecordBatch | None = None
        try:
            for last in self._hot:
                yield last
        except TrimmedError as error:
            at = wanted[0] if last is None else last.column("_offset")[-1].as_py() + 1
            stop = self._log.stop_of(topic, partition, wanted, durable_only=durable_only)
            rest = (wanted[0], stop, None, wanted[3])
            reading = self._log.reading(topic, partition, rest, error, durable_only=durable_only)
            yield from reading.columns(self._hot.schema, at)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)


def _hot(log: TieredLog) -> Log:
    """Return the backend's own half of a log."""
    return cast("Log", super(TieredLog, log))
