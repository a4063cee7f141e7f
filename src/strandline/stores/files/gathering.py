"""Columns of events, gathered by the compiled core from many frames at once."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa

from strandline._core import IS_COMPILED
from strandline.io import SystemIo
from strandline.log.columns import EVENT_SCHEMA
from strandline.stores.files.frame import Frame
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.segment import SegmentFile
from strandline.stores.files.state import State

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import Reader

#: The columns that the core gathers, in its order.
_GATHERED: Final = ("_key", "kind", "payload", "headers", "occurred_at", "_timestamp")
#: At most this many rows or bytes are read at once, always whole frames.
_ROWS: Final = 16 * 1024
_BYTES: Final = 8 << 20
#: How many frames Python reads before it tries the core again; doubled each time.
_LEFT_MAX: Final = 1024


class GatheredFrames(NamedTuple):
    """Some columns of consecutive frames, with the records of [base, stop)."""

    base: int
    stop: int
    #: Their start and end in the segment.
    position: int
    end: int
    columns: dict[str, pa.Array]


Piece: TypeAlias = Frame | GatheredFrames


class Gathering:
    """Reads the named columns; for frames that the core can read, it leaves out all others."""

    def __init__(self, files: PartitionFiles, names: Iterable[str]) -> None:
        self._files = files
        self._names: list[str] = [name for name in _GATHERED if name in set(names)]
        self._wanted = sum(1 << _GATHERED.index(name) for name in self._names)

    def pieces(self, state: State, start: int, stop: int) -> Iterator[tuple[str, Piece]]:
        """Yield verified pieces with the records of [start, stop), and their files.

        A frame that the core cannot read is yielded undecoded. The first and the last piece
        may hold other records, too. Raises what `PartitionFiles.frames` raises.
        """
        while start < stop:
            state, segment, last, end = self._files.opened(state, start)
            until = min(stop, last)
            for piece in self._in_segment(segment, end, start, until):
                yield segment.path, piece
            start = until

    def _in_segment(self, segment: SegmentFile, end: int, start: int, stop: int) -> Iterator[Piece]:
        frame = self._files.partly_read(segment, start) or segment.frame_with(start, end)
        base, position = frame.base, frame.position
        patience = 1
        while base < stop:
            for gathered in self._gathered(segment, end, (base, position), stop):
                yield gathered
                base, position, patience = gathered.stop, gathered.end, 1
            segment.note_end(base, position)
            if base < stop:
                for frame in islice(segment.frames(base, stop, end), patience):
                    yield frame
                    base, position = frame.stop, frame.end
            patience = min(2 * patience, _LEFT_MAX)

    def _gathered(
        self, segment: SegmentFile, end: int, place: tuple[int, int], stop: int
    ) -> Iterator[GatheredFrames]:
        """Yield what the core reads, starting with the frame at `place`."""
        base, position = place
        io = self._files.place.io
        seam = None if type(io) is SystemIo else io
        reader = Reader(
            *(segment, seam, segment.fd, segment.seed, position, base, end, stop, end),
            *("", self._files.place.partition, 0, True),
        )
        while True:
            found = reader.columns(self._wanted, _ROWS, _BYTES, pa.allocate_buffer)
            if reader.base > base:
                segment.note(base, position)
                rows = reader.base - base
                arrays = (
                    pa.Array.from_buffers(EVENT_SCHEMA.field(name).type, rows, parts)
                    for name, parts in zip(self._names, found, strict=True)
                )
                columns = dict(zip(self._names, arrays, strict=True))
                yield GatheredFrames(base, reader.base, position, reader.position, columns)
            if reader.error is not None:
                raise reader.error
            if reader.base == base:
                return
            base, position = reader.base, reader.position
