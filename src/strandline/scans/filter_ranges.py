"""Which offsets can hold a row that meets an Arrow expression, without reading any."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from strandline.tiering.arrow_parts import dataset


class FilterRanges:
    """An Arrow expression of the columns `schema`, as far as it is of partition and offset."""

    def __init__(self, arrow_filter: Any, schema: pa.Schema) -> None:
        self._filter = arrow_filter
        self._schema = schema
        self._format = dataset().ParquetFileFormat()

    def narrowed(self, partition: int, start: int, end: int) -> tuple[int, int]:
        """Return the part of [start, end) outside of which no row meets the expression."""
        if start >= end or not self._may_meet(partition, start, end):
            return start, start
        first, following = start, end
        if not self._may_meet(partition, start, start + 1):
            first = _last(start, end, lambda cut: not self._may_meet(partition, start, cut))
        if not self._may_meet(partition, end - 1, end):
            mirrored = _last(-end, -first, lambda cut: not self._may_meet(partition, -cut, end))
            following = -mirrored
        return first, following

    def _may_meet(self, partition: int, start: int, end: int) -> bool:
        field, guarantee = dataset().field, dataset().scalar(value=True)
        if "_partition" in self._schema.names:
            guarantee &= field("_partition") == partition
        if "_offset" in self._schema.names:
            guarantee &= (field("_offset") >= start) & (field("_offset") <= end - 1)
        # Arrow leaves out the files whose rows cannot meet a filter; this one is never opened.
        file = self._format.make_fragment(pa.BufferReader(b""), partition_expression=guarantee)
        files = dataset().FileSystemDataset([file], self._schema, self._format)
        return any(True for _ in files.get_fragments(self._filter))


def _last(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the last of [start, end) for which `holds`, as it does for the first."""
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start
