"""Reads topics continuously, in micro-batches that cover the log without gap or overlap."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from strandline.clock import Clock, SystemClock
from strandline.log import Log, count_partitions
from strandline.spark.source.admission import within_bytes, within_rows
from strandline.spark.source.consumers import consumer_tenant, keep_up
from strandline.spark.source.places import Bounds, SourcePartition, chosen_topics, kept_range
from strandline.spark.source.positions import (
    Positions,
    Stored,
    identity_in,
    names_in,
    offset_in,
    stream_place,
)
from strandline.spark.source.reading import SourceRead, places_of
from strandline.spark.source.splits import Extent, Split, plan, sized
from strandline.spark.worker_process import acknowledge_at_once
from strandline.values import DivergedError, InvalidError, Mode, TrimmedError

_logger = logging.getLogger("strandline")
_KNOWN_MAX = 10_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides where each micro-batch ends, and reads it.

    All records of a micro-batch are durable in the log before Spark gets its end, so that
    after a power loss a checkpoint is never ahead of the log. One copy is in the planner's
    process as long as the query runs; the workers' copies only `read`.
    """

    def __init__(self, reading: SourceRead, clock: Clock | None = None) -> None:
        self.reading = reading
        self._clock = clock or SystemClock()
        self._open: Log | None = None
        self._places: Sequence[SourcePartition] | None = None
        self._frozen: dict[SourcePartition, int] | None = None
        #: Cache: stored position → resolved offset.
        self._known: dict[tuple[str, ...], int | None] = {}
        self._taken_at: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"reading": self.reading}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["reading"])  # type: ignore[misc] # A worker's copy begins again.
        acknowledge_at_once()

    # --- how far ---

    def initialOffset(self) -> Stored:  # noqa: N802 # Spark's name, as below.
        options = self.reading.options
        places = self._current_places()
        bounds = Bounds(self._log, places)
        starts = bounds.offsets(options.start, "latest")
        for place in places:
            marks = bounds.marks(place)
            starts[place], _ = kept_range(
                place,
                starts[place],
                max(starts[place], int(marks.low)),
                marks,
                fail_on_data_loss=options.fail_on_data_loss,
            )
            self._make_durable(place, starts[place])
            self._hold(place, starts[place])
        return self._positions.stored(starts)

    def latestOffset(self, start: Stored, limit: ReadLimit) -> Stored:  # noqa: N802
        starts = self._starts(start)
        ends = self._ends(starts)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._admitted(starts, ends)
        if ends == starts and set(names_in(start)) == {_named(place) for place in ends}:
            return start
        self._taken_at = self._clock.monotonic()
        for place, end in ends.items():
            self._make_durable(place, end)
        return self._positions.stored(ends, start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limits = self.reading.options.limits
        if limits.rows_max is not None:
            return ReadMaxRows(limits.rows_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.rows_min is not None:
            return ReadMinRows(limits.rows_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Stored | None:  # noqa: N802
        ends = {place: int(self._log.marks(*place).high) for place in self._current_places()}
        return self._positions.stored(ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = {
            place: int(self._log.marks(*place).high) for place in self._current_places()
        }

    # --- what ---

    def partitions(self, start: Stored, end: Stored) -> Sequence[InputPartition]:
        options = self.reading.options
        extents = []
        starts = self._starts(start)
        for place in self._current_places():
            stop = offset_in(end, place)
            if stop is None or stop <= starts[place]:
                continue
            kept = kept_range(
                place,
                starts[place],
                stop,
                self._log.marks(*place),
                fail_on_data_loss=options.fail_on_data_loss,
            )
            if kept[0] > starts[place]:
                _logger.warning("a stream passes over trimmed records: %s", place)
            extents.append(Extent(place, *kept))
        return plan(
            self._log,
            extents,
            partitions_min=options.partitions_min,
            records_max=options.records_max,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition, None, where none was planned.
        return self.reading.read(partition) if isinstance(partition, Split) else iter(())

    def commit(self, end: Stored) -> None:
        """Move the consumer. Spark calls this one batch late, and not for the last batch.

        ConsumerListener does the same at the end of each batch.
        """
        place = stream_place(msgspec.json.encode(end).decode())
        if place is not None:
            keep_up(self._log, place)

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    # --- the log ---

    @property
    def _log(self) -> Log:
        if self._open is None:
            # Not only for reading: records that other processes have written are made durable.
            self._open = self.reading.opened(Mode.CONSUME)
        return self._open

    @property
    def _positions(self) -> Positions:
        options = self.reading.options
        if options.consumer is None:
            return Positions(self._log, self._log.id)
        reader = {
            "url": self.reading.url,
            "consumer": options.consumer,
            "tenant": options.selection.tenant,
        }
        return Positions(self._log, self._log.id, reader)

    def _current_places(self) -> Sequence[SourcePartition]:
        """Return the current partitions, for a pattern those of each matching topic."""
        selection = self.reading.options.selection
        if self._places is not None and selection.assigned is None:
            counts = Counter(place.topic for place in self._places)
            if any(count_partitions(self._log, each) > count for each, count in counts.items()):
                self._places = None
        if self._places is not None and selection.pattern is not None:
            known = {place.topic for place in self._places}
            if set(chosen_topics(self._log, selection)) != known:
                self._places = None
        if self._places is None:
            self._places = places_of(self._log, self.reading.options)
        return self._places

    def _starts(self, stored: Stored) -> dict[SourcePartition, int]:
        """Return the start of a micro-batch: as stored; new partitions from their first record."""
        places = self._current_places()
        self._check_none_is_missing(stored, places)
        starts = {}
        for place in places:
            offset = self._known_offset(stored, place)
            starts[place] = int(self._log.marks(*place).low) if offset is None else offset
        return starts

    def _known_offset(self, stored: Stored, place: SourcePartition) -> int | None:
        identity = identity_in(stored, place)
        if identity not in self._known:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[identity] = self._resolve(stored, place)
        return self._known[identity]

    def _resolve(self, stored: Stored, place: SourcePartition) -> int | None:
        """Return the stored offset, after checking that it belongs to this log's history."""
        fails = self.reading.options.fail_on_data_loss
        try:
            return self._positions.resolve(stored, place)
        except TrimmedError as error:
            if not fails:
                _logger.warning("a stream continues at the oldest record kept: %s", error)
                return error.oldest
            # A batch that ends there needs no records before it; reading from there on raises.
            return offset_in(stored, place)
        except DivergedError as error:
            if fails:
                raise
            _logger.warning("a stream continues where its log diverged: %s", error)
            return error.diverged_at
        except InvalidError as error:
            if fails:
                raise
            _logger.warning("a stream continues at the oldest record kept: %s", error)
            return None

    def _check_none_is_missing(self, stored: Stored, places: Sequence[SourcePartition]) -> None:
        gone = set(names_in(stored)) - {_named(place) for place in places}
        if gone and self.reading.options.fail_on_data_loss:
            raise InvalidError(
                "the checkpoint knows partitions that are no longer there or no longer chosen; "
                "failOnDataLoss=false continues without them",
                gone=sorted(gone),
            )

    def _ends(self, starts: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
        """Return the ends of the partitions; raise for lost records if `failOnDataLoss`."""
        fails = self.reading.options.fail_on_data_loss
        ends = {}
        for place, start in starts.items():
            marks = self._log.marks(*place)
            end = int(marks.high) if self._frozen is None else self._frozen_end(place, start)
            if fails:
                kept_range(place, start, max(start, end), marks, fail_on_data_loss=True)
            ends[place] = min(end, int(marks.high))
        return ends

    def _frozen_end(self, place: SourcePartition, start: int) -> int:
        """Return the fixed end of an AvailableNow run; a new query may start after it."""
        assert self._frozen is not None
        return max(start, self._frozen.get(place, 0))

    def _hold(self, place: SourcePartition, start: int) -> None:
        """Register the consumer, so that records that it has not read are not trimmed."""
        options = self.reading.options
        if options.consumer is None:
            return
        tenant = consumer_tenant(place.topic, options.selection.tenant)
        if self._log.cursor(place.topic, options.consumer, place.partition, tenant=tenant) is None:
            self._log.seek(place.topic, options.consumer, place.partition, start, tenant=tenant)

    def _make_durable(self, place: SourcePartition, end: int) -> None:
        if self._log.marks(*place).durable < end:
            self._log.sync(*place)

    def _admitted(
        self, starts: dict[SourcePartition, int], ends: dict[SourcePartition, int]
    ) -> dict[SourcePartition, int]:
        limits = self.reading.options.limits
        counted = {place: max(end, starts[place]) for place, end in ends.items()}
        if counted != ends:
            return ends  # Records were lost, and the stream goes back to where they end.
        rows = sum(end - starts[place] for place, end in ends.items())
        if limits.rows_min and rows < limits.rows_min and self._may_wait(limits.delay_s):
            return starts
        if limits.rows_max is not None:
            ends = within_rows(starts, ends, limits.rows_max)
        if limits.bytes_max is not None:
            ends = within_bytes(
                starts,
                ends,
                limits.bytes_max,
                lambda place, start, end: sized(self._log, Extent(place, start, end)),
            )
        return ends

    def _may_wait(self, delay_s: float) -> bool:
        if self._frozen is not None or self._taken_at is None:
            return False
        return self._clock.monotonic() - self._taken_at < delay_s


def _named(place: SourcePartition) -> tuple[str, int]:
    return place.topic.name, place.partition
