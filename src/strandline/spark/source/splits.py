"""Divides ranges of offsets into splits for Spark's tasks, by the sizes of the stored runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from strandline.log import LogReader
from strandline.spark.source.places import SourcePartition
from strandline.values import Segment

#: The least that a task reads, about, unless an option says otherwise, and the most.
SPLIT_BYTES: Final = 64 * 1024 * 1024
SPLIT_BYTES_MAX: Final = 256 * 1024 * 1024
#: Tasks read more than the least only if this many are left. A task of Python costs Spark as
#: much as reading 30 MB does.
_TASKS: Final = 16


class Split(InputPartition):
    """The records [start, end) of a partition that one task reads."""

    def __init__(self, place: SourcePartition, start: int, end: int) -> None:
        super().__init__(None)
        self.place = place
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        topic, partition = self.place
        return f"Split({topic.name!r}, {partition}, {self.start}, {self.end})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.place, self.start, self.end))


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of one partition to be read."""

    place: SourcePartition
    start: int
    end: int


def sized(log: LogReader, extent: Extent) -> Sequence[tuple[int, int, float]]:
    """Divide a range at the ends of stored runs; return each piece with its estimated bytes."""
    pieces = []
    for segment in log.segments(*extent.place):
        start, end = max(extent.start, segment.start), min(extent.end, segment.end)
        if start < end:
            pieces.append((start, end, _bytes_of(segment, end - start)))
    return pieces


def _bytes_of(segment: Segment, records: int) -> float:
    return segment.size_bytes * records / (segment.end - segment.start)


def plan(
    log: LogReader,
    extents: Sequence[Extent],
    *,
    partitions_min: int | None = None,
    records_max: int | None = None,
) -> list[Split]:
    """Return splits that hold each record of the extents once.

    Splits end where a stored run ends, if that gives pieces of a good size; only a
    larger run is divided. No split has more than `records_max` records, and there are at
    least `partitions_min` splits, if there are that many records.
    """
    splits: list[Split] = []
    pieces = [(each, sized(log, each)) for each in extents if each.start < each.end]
    total = sum(size for _, found in pieces for *_, size in found)
    split_bytes = min(max(total / _TASKS, SPLIT_BYTES), SPLIT_BYTES_MAX)
    for extent, found in pieces:
        splits += _by_bytes(extent, found, split_bytes)
    if records_max is not None:
        splits = [part for each in splits for part in _cut(each, -(-_size(each) // records_max))]
    return _at_least(splits, partitions_min or 1)


def _by_bytes(
    extent: Extent, pieces: Sequence[tuple[int, int, float]], split_bytes: float
) -> list[Split]:
    found: list[Split] = []
    begun, at, gathered = extent.start, extent.start, 0.0
    for start, end, size in pieces:
        if gathered and gathered + size / 2 > split_bytes:
            found.append(Split(extent.place, begun, at))
            begun, gathered = start, 0.0
        at, gathered = end, gathered + size
        if gathered >= 2 * split_bytes:
            found += _cut(Split(extent.place, begun, at), round(gathered / split_bytes))
            begun, gathered = at, 0.0
    # What no run covers, such as records appended since, belongs to the last piece.
    if begun < extent.end:
        found.append(Split(extent.place, begun, extent.end))
    return found


def _at_least(splits: list[Split], wanted: int) -> list[Split]:
    """Divide splits, in proportion to their sizes, until there are `wanted` of them."""
    total = sum(map(_size, splits))
    wanted = min(wanted, total)
    if len(splits) >= wanted:
        return splits
    counts = [max(1, _size(each) * wanted // total) for each in splits]
    while sum(counts) < wanted:
        widest = max(range(len(splits)), key=lambda n: _size(splits[n]) / counts[n])
        counts[widest] += 1
    return [part for each, count in zip(splits, counts, strict=True) for part in _cut(each, count)]


def _cut(split: Split, count: int) -> list[Split]:
    size = _size(split)
    edges = [split.start + size * n // count for n in range(count + 1)]
    return [Split(split.place, start, end) for start, end in pairwise(edges) if start < end]


def _size(split: Split) -> int:
    return split.end - split.start
