"""One read of a topic, partition by partition, with only the needed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from strandline.log import Log, parts_of
from strandline.log.columns import RECORD_FIELDS
from strandline.log.parts import current_settings
from strandline.scans.narrowing import FilterRanges, narrowed
from strandline.scans.paging import columns_of, selected_rows, topic_columns
from strandline.scans.sieve import STORED_AS, Sieve, predicate_columns, sieve
from strandline.scans.skipping import Skipping, stored_bounds
from strandline.values import Topic, ValueKind


@dataclass(frozen=True, slots=True)
class ScanRead:
    """The matching rows of records between fixed ends."""

    log: Log
    topic: Topic
    schema: pa.Schema
    #: The records [start, end) of each partition.
    ranges: Mapping[int, tuple[int, int]]
    sieve: Sieve
    skipping: Skipping = field(default_factory=Skipping)

    def narrow(self, names: Sequence[str]) -> pa.Schema:
        """Return these columns."""
        return pa.schema([self.schema.field(name) for name in names])

    def batches(self, names: Sequence[str], arrow_filter: Any = None) -> Iterator[pa.RecordBatch]:
        """Yield these columns of the rows, in the order of partition and offset.

        Rows for which `arrow_filter`, an Arrow expression on these columns, is not true may be
        left out.
        """
        wanted, read = self.narrow(names), self._read_schema(names)
        skipping, filter_ranges = self.skipping, None
        if arrow_filter is not None:
            skipping = replace(skipping, arrow_filter=(arrow_filter, wanted))
            filter_ranges = FilterRanges(arrow_filter, wanted)
        for partition, span in self.ranges.items():
            place = self.topic, partition
            start, end = filter_ranges.narrowed(partition, *span) if filter_ranges else span
            for first, stop in skipping.kept(self.log, place, start, end):
                for batch in self._rows(place, first, stop, read):
                    found = self.sieve.sifted(batch)
                    if found.num_rows:
                        yield found.select(wanted.names)

    def _rows(
        self, place: tuple[Topic, int], start: int, end: int, read: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        if parts_of(self.log).store.capabilities.has_evaluation:
            return selected_rows(self.log, place, (start, end), read, self.sieve)
        return columns_of(self.log, place, start, end, read)

    def _read_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the columns to read: these, and those of the sieve."""
        needed = {*names, *(STORED_AS.get(name, name) for name in self.sieve.read)}
        if self.sieve.tenant is not None:
            needed.add("_tenant")
        return pa.schema([each for each in self.schema if each.name in needed])


def read_of(log: Log, topic: Topic, where: str, tenant: str | None) -> ScanRead:
    """Return the read of the current records of the topic."""
    settings = current_settings(log, topic)
    kind = settings.value_kind
    ranges = {}
    for partition in range(settings.partitions):
        marks = log.marks(topic, partition)
        ranges[partition] = int(marks.low), int(marks.high)
    schema = topic_columns(log, topic, settings, ranges)
    values = pa.schema([each for each in schema if each not in RECORD_FIELDS])
    offered = predicate_columns(settings, values if kind is ValueKind.BATCH else None)
    offered = pa.schema([*offered, *RECORD_FIELDS])
    picked = sieve(kind, tenant, where if where.strip() else None, offered)
    read = ScanRead(log, topic, schema, ranges, picked)
    if picked.predicate is None:
        return read
    bounds = [
        replace(each, column=picked.stored_as(each.column)) for each in picked.predicate.bounds
    ]
    if settings.source is not None:
        # Timestamps of other writers may decrease.
        bounds = [each for each in bounds if each.column != "_timestamp"]
    within = {
        partition: narrowed(log, (topic, partition), *span, bounds)
        for partition, span in ranges.items()
    }
    return replace(read, ranges=within, skipping=stored_bounds(picked, schema))
