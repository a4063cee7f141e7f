"""Records in runs: some read by the compiled core, others left to Python."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from strandline._core import IS_COMPILED
from strandline.io import SystemIo
from strandline.stores.files.byte_limit import ByteLimit
from strandline.stores.files.entries import page_of
from strandline.stores.files.frame import Frame
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.segment import SegmentFile
from strandline.values import Record

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import Reader

#: A run ends after this many bytes, so that a reader can check the log in between.
_RUN_BYTES = 1 << 20
#: How many frames Python reads before it tries the core again; doubled each time.
_LEFT_MAX = 1024


class Run(NamedTuple):
    """Consecutive records."""

    base: int
    #: The position of the first one in the segment.
    position: int
    records: Iterator[Record]


class SegmentRuns:
    """The records of [start, stop) in one segment, whose frames end at `end`."""

    def __init__(
        self, files: PartitionFiles, segment: SegmentFile, end: int, limit: ByteLimit
    ) -> None:
        self._files = files
        self._limit = limit
        self._segment = segment
        self._end = end
        self._name, self._partition = files.place.topic.name, files.place.partition
        io = files.place.io
        self._seam = None if type(io) is SystemIo else io

    def between(self, start: int, stop: int) -> Iterator[Run]:
        """Yield the runs, up to the limit.

        Each run must be read to its end before the next one is requested.
        """
        segment, limit = self._segment, self._limit
        frame = self._files.partly_read(segment, start) or segment.frame_with(start, self._end)
        base, position = frame.base, frame.position
        if base < start:
            # A reader of pages returns for the rest of it, which only Python caches.
            yield self._left(frame, start, stop)
            base, position = frame.stop, frame.end
        patience = 1
        while base < stop and not limit.is_full():
            run = self._reader(base, position, stop)
            yield Run(base, position, run)
            if run.error is not None:
                raise run.error
            limit.take(run.bytes_left, is_full=run.is_full)
            if run.base > base:
                base, position, patience = run.base, run.position, 1
                segment.note(base, position)
                continue
            segment.note_end(base, position)
            for frame in islice(segment.frames(base, stop, self._end), patience):
                yield self._left(frame, start, stop)
                base, position = frame.stop, frame.end
                if limit.is_full():
                    break
            patience = min(2 * patience, _LEFT_MAX)
        segment.note_end(base, position)

    def _left(self, frame: Frame, start: int, stop: int) -> Run:
        """Return the records of a frame that the core cannot read."""
        page = page_of(frame, self._files.place.kind, self._segment.path, start, stop)
        page = self._limit.cut(page)
        self._files.keep_partly_read(self._segment.path, frame, page.offsets.stop)
        records = page.records(self._name, self._partition)
        return Run(max(start, frame.base), frame.position, records)

    def _reader(self, base: int, position: int, stop: int) -> "Reader":
        segment = self._segment
        return Reader(
            *(segment, self._seam, segment.fd, segment.seed, position, base),
            *(self._end, stop, position + _RUN_BYTES, self._name, self._partition),
            *(self._limit.left, self._limit.is_first),
        )
