"""Records of a partition as objects and as record batches."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from strandline._core import IS_COMPILED
from strandline.log.columns import BYTES_SCHEMA, EVENT_SCHEMA, RecordBatches
from strandline.log.record_batches import batches_of_batches, page_batch
from strandline.stores.file_errors import unavailable
from strandline.stores.files.byte_limit import ByteLimit
from strandline.stores.files.entries import Entry, columns_of, entries_in, page_of
from strandline.stores.files.frame import COLUMNS, IS_MIXED, Frame
from strandline.stores.files.gathering import GatheredFrames, Gathering, Piece
from strandline.stores.files.page import Page
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.runs import SegmentRuns
from strandline.stores.files.state import State
from strandline.values import Record, TrimmedError, ValueKind

#: Rows are collected into record batches of this many.
_ROWS_MAX = 4096
#: After this many bytes, a read checks whether a trim has overtaken it.
_TRIM_CHECK_BYTES = 1 << 20
_US = pa.timestamp("us", "UTC")
_TEXT = pa.string()
_Found = TypeVar("_Found", Frame, Piece)
_Read: TypeAlias = Callable[[State, int, int], Iterator[tuple[str, _Found]]]


class Span(NamedTuple):
    """What to read: [start, stop) of a state, within limits."""

    state: State | None
    start: int
    stop: int
    bytes_max: int | None


class Reading:
    """One read of a partition."""

    def __init__(self, files: PartitionFiles, span: Span, check_open: Callable[[], None]) -> None:
        self._files = files
        self._place = files.place
        self._span = span
        self._check_open = check_open
        self._repeated: tuple[pa.Array, pa.Array, pa.Array] = (), (), ()

    def records(self) -> Iterator[Record]:
        """Return the records one by one."""
        if IS_COMPILED and self._place.kind is ValueKind.EVENT:
            return chain.from_iterable(self._runs())
        name, partition = self._place.topic.name, self._place.partition
        return chain.from_iterable(page.records(name, partition) for page in self._pages())

    def batches(self) -> RecordBatches:
        """Return the records as record batches."""
        if self._place.kind is ValueKind.BATCH:
            pages = lambda: map(entries_in, self._pages())  # noqa: E731
            return batches_of_batches(self._place.partition, pages)
        schema = EVENT_SCHEMA if self._place.kind is ValueKind.EVENT else BYTES_SCHEMA
        return RecordBatches(schema, lambda: self._columns(schema), self._narrowed)

    def _runs(self) -> Iterator[Iterator[Record]]:
        """Yield records in runs: those that the core reads, and those left to Python."""
        state, start, stop, bytes_max = self._span
        limit = ByteLimit(bytes_max)
        # The call has just checked; from here on, check after each _TRIM_CHECK_BYTES.
        check_at: int | None = None
        try:
            while state is not None and start < stop and not limit.is_full():
                state, segment, last, end = self._files.opened(state, start)
                until = min(stop, last)
                runs = SegmentRuns(self._files, segment, end, limit)
                for base, position, records in runs.between(start, until):
                    self._check_open()
                    if check_at is None or position >= check_at:
                        if check_at is not None:
                            self._check_not_trimmed(base)
                        check_at = position + _TRIM_CHECK_BYTES
                    yield records
                start, check_at = until, 0
        except OSError as error:
            raise unavailable(error, self._place.directory) from error

    # --- pages ---

    def _frames(self) -> Iterator[tuple[str, Frame]]:
        return self._checked(self._files.frames)

    def _checked(self, read: "_Read[_Found]") -> "Iterator[tuple[str, _Found]]":
        """Yield what is read of the span, while the log is open and no trim overtakes it."""
        state, start, stop, _ = self._span
        if state is None or start >= stop:
            return
        # The call has just checked; from here on, check after each _TRIM_CHECK_BYTES.
        checked, check_at = None, 0
        try:
            for file, found in read(state, start, stop):
                self._check_open()
                if file != checked or found.position >= check_at:
                    if checked is not None:
                        self._check_not_trimmed(max(start, found.base))
                    checked = file
                    check_at = max(found.position + _TRIM_CHECK_BYTES, found.end)
                yield file, found
        except OSError as error:
            raise unavailable(error, self._place.directory) from error

    def _pages(self) -> Iterator[Page]:
        """Yield the wanted records of each frame."""
        _, start, stop, bytes_max = self._span
        limit = ByteLimit(bytes_max)
        if limit.is_full():
            return
        for file, frame in self._frames():
            page = limit.cut(page_of(frame, self._place.kind, file, start, stop))
            # The next page reads the rest of this frame.
            self._files.keep_partly_read(file, frame, page.offsets.stop)
            yield page
            if limit.is_full():
                return

    def _check_not_trimmed(self, offset: int) -> None:
        try:
            low = self._files.marks().low
        except OSError as error:
            raise unavailable(error, self._place.directory) from error
        if offset < low:
            raise TrimmedError(low, partition=self._place.partition, offset=offset)

    # --- columns ---

    def _columns(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._span.bytes_max is not None:
            for page in self._gathered(self._pages()):
                yield self._rows(page, schema)
            return
        yield from self._batches_of(self._frames(), schema)

    def _narrowed(self, narrow: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield record batches with only these columns."""
        is_event = self._place.kind is ValueKind.EVENT
        schema = EVENT_SCHEMA if is_event else BYTES_SCHEMA
        if not (IS_COMPILED and is_event and self._span.bytes_max is None):
            return (batch.select(narrow.names) for batch in self._columns(schema))
        pieces = Gathering(self._files, narrow.names).pieces
        return self._batches_of(self._checked(pieces), schema, narrow)

    def _batches_of(
        self,
        pieces: Iterator[tuple[str, Piece]],
        schema: pa.Schema,
        narrow: pa.Schema | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield their rows, with the columns of `narrow` if it is given."""
        rows: list[Entry] = []
        _, start, stop, _ = self._span
        for file, piece in pieces:
            if isinstance(piece, Frame) and piece.kind != COLUMNS:
                rows += entries_in(page_of(piece, self._place.kind, file, start, stop))
                if len(rows) < _ROWS_MAX:
                    continue
            if rows:
                yield _selected(self._rows(rows, schema), narrow)
                rows = []
            if isinstance(piece, GatheredFrames):
                assert narrow is not None
                yield self._gathered_batch(piece, narrow)
            elif piece.kind == COLUMNS:
                yield _selected(self._frame_batch(piece, file, schema), narrow)
        if rows:
            yield _selected(self._rows(rows, schema), narrow)

    def _gathered(self, pages: Iterator[Page]) -> Iterator[list[Entry]]:
        rows: list[Entry] = []
        for page in pages:
            rows += entries_in(page)
            if len(rows) >= _ROWS_MAX:
                yield rows
                rows = []
        if rows:
            yield rows

    def _rows(self, page: Sequence[Entry], schema: pa.Schema) -> pa.RecordBatch:
        return page_batch(self._place.kind, self._place.partition, page, schema)

    def _frame_batch(self, frame: Frame, file: str, schema: pa.Schema) -> pa.RecordBatch:
        """Return the wanted part of a frame of columns, without decoding single records."""
        stored, tenant = columns_of(frame, self._place.kind, file)
        count = frame.records
        partitions, rows, no_tenants = self._constants(count)
        if frame.flags & IS_MIXED:
            stamps, tenants, keys, *value = stored.columns
        else:
            keys, *value = stored.columns
            stamps = _repeated(frame.timestamp_us, _US, count)
            tenants = no_tenants if tenant is None else pa.repeat(pa.scalar(tenant, _TEXT), count)
        offsets = pa.arange(frame.base, frame.stop)
        own = [partitions, offsets, rows, stamps, keys, tenants]
        return self._wanted(pa.RecordBatch.from_arrays([*own, *value], schema=schema), frame)

    def _gathered_batch(self, found: GatheredFrames, schema: pa.Schema) -> pa.RecordBatch:
        """Return the wanted part of columns that the core has gathered."""
        count = found.stop - found.base
        partitions, rows, no_tenants = self._constants(count)
        # Frames that the core reads have no tenant.
        columns = {"_partition": partitions, "_row": rows, "_tenant": no_tenants, **found.columns}
        if "_offset" in schema.names:
            columns["_offset"] = pa.arange(found.base, found.stop)
        arrays = [columns[name] for name in schema.names]
        return self._wanted(pa.RecordBatch.from_arrays(arrays, schema=schema), found)

    def _wanted(self, batch: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        """Return the rows of a piece that lie in the span."""
        _, start, stop, _ = self._span
        first, last = max(start, piece.base), min(stop, piece.stop)
        is_whole = last - first == batch.num_rows
        return batch if is_whole else batch.slice(first - piece.base, last - first)

    def _constants(self, count: int) -> "tuple[pa.Array, pa.Array, pa.Array]":
        """Return the partition, the row 0 and no tenant, `count` times each."""
        if len(self._repeated[0]) < count:
            self._repeated = (
                _repeated(self._place.partition, pa.int32(), count),
                _repeated(0, pa.int32(), count),
                pa.nulls(count, _TEXT),
            )
        partitions, rows, no_tenants = self._repeated
        if len(partitions) == count:
            return self._repeated
        return partitions[:count], rows[:count], no_tenants[:count]


def _selected(batch: pa.RecordBatch, narrow: pa.Schema | None) -> pa.RecordBatch:
    return batch if narrow is None else batch.select(narrow.names)


def _repeated(number: int, arrow: pa.DataType, count: int) -> pa.Array:
    """Return a number `count` times.

    Made of bytes: making its first array of Python values, pyarrow imports pandas.
    """
    content = number.to_bytes(arrow.bit_width // 8, "little", signed=True) * count
    return pa.Array.from_buffers(arrow, count, [None, pa.py_buffer(content)])
