"""Reads topics once, from a fixed start to a fixed end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from strandline.log import Log
from strandline.spark.garbage_collection import collector_paused, freeze_imports
from strandline.spark.source.places import Bounds, SourcePartition, kept_range
from strandline.spark.source.reading import SourceRead, places_of
from strandline.spark.source.skipping import filter_bound
from strandline.spark.source.splits import Extent, Split, plan
from strandline.spark.worker_process import acknowledge_at_once


class BatchReader(DataSourceReader):
    """Plans and reads a batch. The planner's process creates it, the workers get copies."""

    def __init__(self, reading: SourceRead) -> None:
        self.reading: SourceRead = reading

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_at_once()

    def partitions(self) -> Sequence[InputPartition]:
        splits = self._splits()
        freeze_imports()
        return splits

    @collector_paused()
    def _splits(self) -> Sequence[InputPartition]:
        options = self.reading.options
        with self.reading.opened() as log:
            extents = [extent for extent in self._extents(log) if extent.start < extent.end]
            return plan(
                log,
                extents,
                partitions_min=options.partitions_min,
                records_max=options.records_max,
            )

    def _extents(self, log: Log) -> list[Extent]:
        options = self.reading.options
        places = places_of(log, options)
        bounds = Bounds(log, places)
        starts = bounds.offsets(options.start, "earliest")
        ends = bounds.offsets(options.end, "latest")
        return [
            Extent(
                place,
                *kept_range(
                    place,
                    starts[place],
                    max(starts[place], ends[place]),
                    bounds.marks(place),
                    fail_on_data_loss=options.fail_on_data_loss,
                ),
            )
            for place in places
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition, None, where none was planned.
        return self.reading.read(partition) if isinstance(partition, Split) else iter(())


class PushingReader(BatchReader):
    """Skips records that Spark's filters exclude.

    Filters on offset, partition and append time bound the splits; workers skip objects of the
    tier whose statistics exclude all rows. Only with `pushdown`: Spark fails every read of a
    reader that takes filters unless `spark.sql.python.filterPushdown.enabled` is on. All
    filters are returned to Spark, which applies them again.
    """

    reading: SourceRead

    def __init__(self, reading: SourceRead) -> None:
        super().__init__(reading)
        self._filters: list[tuple[str, str, Any]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 # Spark's name.
        prefix = "" if self.reading.format.shape.is_kafka else "_"
        names = {f"{prefix}{name}": name for name in ("partition", "offset", "timestamp")}
        bounds = map(filter_bound, filters)
        self.reading = self.reading.bounded(each for each in bounds if each is not None)
        for each in filters:
            kind = _COMPARISONS.get(type(each))
            attribute: tuple[str, ...] = getattr(each, "attribute", ())
            if kind is not None and len(attribute) == 1 and attribute[0] in names:
                self._filters.append((names[attribute[0]], kind, getattr(each, "value", None)))
        return filters

    def _extents(self, log: Log) -> list[Extent]:
        return [self._skipped(log, extent) for extent in super()._extents(log)]

    def _skipped(self, log: Log, extent: Extent) -> Extent:
        start, end = extent.start, extent.end
        for name, kind, value in self._filters:
            low, high = _bounds_of(log, extent.place, name, kind, value)
            start = start if low is None else max(start, low)
            end = end if high is None else min(end, high)
        return Extent(extent.place, start, max(start, end))


_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def _bounds_of(
    log: Log, place: SourcePartition, name: str, kind: str, value: Any
) -> tuple[int | None, int | None]:
    """Return [start, end): the offsets for which a comparison can be true."""
    if name == "partition":
        number = place.partition
        holds = {
            "=": number == value,
            ">": number > value,
            ">=": number >= value,
            "<": number < value,
            "<=": number <= value,
        }[kind]
        return (None, None) if holds else (None, 0)
    first, after = _first_and_after(log, place, name, value)
    return {
        "=": (first, after),
        ">": (after, None),
        ">=": (first, None),
        "<": (None, first),
        "<=": (None, after),
    }[kind]


def _first_and_after(log: Log, place: SourcePartition, name: str, value: Any) -> tuple[int, int]:
    """Return the first offset that is not less than `value`, and the first that is greater."""
    if name == "offset":
        return int(value), int(value) + 1
    assert isinstance(value, datetime)
    epoch = datetime.fromtimestamp(0, value.tzinfo)
    delta = value - epoch
    at_us = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    first = log.offset_at(*place, max(0, at_us))
    return int(first), int(log.offset_at(*place, max(0, at_us + 1)))
