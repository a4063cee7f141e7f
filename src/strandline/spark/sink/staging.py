"""The work of a task: writes its rows to new files, durably, in blocks of one partition."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from strandline.log import Log
from strandline.log.staged import StagedLayout, staged_layout
from strandline.spark.sink.fingerprint import Fingerprint, fingerprint
from strandline.spark.sink.intents import append_key, staged_name
from strandline.spark.sink.place import StagedFile, StagingFolder
from strandline.spark.sink.rows import KEY, TOPIC, TopicRows, too_large, topic_rows
from strandline.values import RECORD_BYTES_MAX, InvalidError

#: The limits of one append, so that blocks need not be joined later.
BLOCK_ROWS: Final = 32_768
BLOCK_BYTES: Final = 8 * 1024 * 1024
#: The most that a task buffers in memory, for all partitions together.
HELD_BYTES: Final = 64 * 1024 * 1024
#: A file of this size is finished and the next begun, as objects are written from memory.
FILE_BYTES: Final = 64 * 1024 * 1024
#: How many partitions have a separate file at once, since each file is synced.
OWN_FILES_MAX: Final = 8

#: What an Arrow stream has besides its schema and its batch, with room to spare.
_STREAM_ENDS: Final = 256
#: A message begins with a marker and its length; so does the end of a stream.
_PREFIX_BYTES: Final = 8

_compute: Any = pc


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one partition, and their place in a file."""

    topic: int
    partition: int
    file: int
    offset: int
    length: int
    rows: int
    crc: int
    #: As a StagedPiece has it.
    size_bytes: int | None = None

    @property
    def is_laid_out(self) -> bool:
        """Whether its file may become a segment."""
        return self.size_bytes is not None


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has staged: everything that `commit` gets from it."""

    app: str
    version: int
    task: int
    #: The names of its files; empty if there were no rows.
    names: tuple[str, ...]
    #: Each as `Topic.to_json` has it.
    topics: tuple[str, ...]
    blocks: tuple[Block, ...]
    #: Topic id → the fingerprint of its rows.
    fingerprints: dict[str, Fingerprint]


@dataclass(slots=True)
class _Held:
    """Rows of one partition that are still in memory."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Open:
    """A file that is being filled: its number in the task, and its size."""

    number: int
    size: int = 0


class Stager:
    """Stages the rows of one task.

    A partition that fills a block gets a separate file, which may become a segment of the
    log; the others share one.
    """

    def __init__(
        self,
        log: Log,
        folder: StagingFolder,
        *,
        topic: str | None,
        tenant: str | None,
        version: int,
        task: int,
        event_kind: str | None = None,
        is_upsert: bool = False,
    ) -> None:
        self._log = log
        self._folder = folder
        self._topic = topic
        self._tenant = tenant
        self._version = version
        self._task = task
        self._event_kind = event_kind
        self._is_upsert = is_upsert
        self._shapes: dict[str, TopicRows] = {}
        self._prints: dict[str, Fingerprint] = {}
        self._held: dict[tuple[int, int], _Held] = {}
        self._held_bytes = 0
        self._blocks: list[Block] = []
        self._names: list[str] = []
        self._files: list[StagedFile] = []
        #: The open files, by topic and partition; the shared one under None.
        self._open: dict[tuple[int, int] | None, _Open] = {}
        #: For each topic, the layout of a file that may become a segment, or None.
        self._layouts: list[StagedLayout | None] = []
        self._turn = task

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Stage rows durably, and return what was staged. On an error all files are removed."""
        try:
            for batch in batches:
                if batch.num_rows:
                    self._add(batch)
            self._flush_all()
            for own in list(self._open):
                self._finish_file(own)
        except BaseException:
            for file in self._files:
                file.discard()
            raise
        return Staged(
            self._folder.app,
            self._version,
            self._task,
            tuple(self._names),
            tuple(each.topic.to_json().decode() for each in self._shapes.values()),
            tuple(self._blocks),
            dict(self._prints),
        )

    def _add(self, batch: pa.RecordBatch) -> None:
        for name, rows in self._by_topic(batch):
            shape = self._shape(name, rows.schema.names)
            plain = shape.plain(rows)
            known = str(shape.topic.id)
            self._prints[known] = self._prints.get(known, Fingerprint()) + fingerprint(plain)
            index = list(self._shapes).index(name)
            stored = shape.stored(plain)
            if self._is_upsert and stored.column(KEY).null_count:
                raise InvalidError(
                    "in output mode complete a row replaces what its key had before, "
                    "and some rows have no key",
                    topic=name,
                )
            for partition, part in shape.split(stored, self._turn):
                for piece in _pieces(part):
                    self._hold(index, partition, piece)
        self._turn += 1

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._topic is not None:
            yield self._topic, batch
            return
        if TOPIC not in batch.schema.names:
            raise InvalidError("name the topic with the option topic, or in a column of that name")
        names = batch.column(TOPIC)
        if names.null_count:
            raise InvalidError(
                "the column topic is null in some rows, and there is no option topic"
            )
        for name in names.unique().to_pylist():
            yield name, batch.filter(_compute.equal(names, name))

    def _shape(self, name: str, columns: list[str]) -> TopicRows:
        shape = self._shapes.get(name)
        if shape is None:
            shape = topic_rows(self._log, name, self._tenant, self._event_kind)
            shape.check(columns)
            self._shapes[name] = shape
            self._layouts.append(self._layout(shape))
        return shape

    def _layout(self, shape: TopicRows) -> StagedLayout | None:
        is_owned = self._tenant is not None or shape.topic.tenant is not None
        if is_owned or self._folder.path_for_store("") is None:
            return None
        key = append_key(str(self._folder.clock.new_id()), 0, is_laid_out=True)
        return staged_layout(self._log, shape.topic, key)

    def _hold(self, topic: int, partition: int, rows: pa.RecordBatch) -> None:
        size = rows.nbytes
        held = self._held.get((topic, partition))
        if held and (held.rows + rows.num_rows > BLOCK_ROWS or held.bytes + size > BLOCK_BYTES):
            self._begin_own_file(topic, partition)
            self._flush(topic, partition)
        held = self._held.setdefault((topic, partition), _Held())
        held.batches.append(rows)
        held.rows += rows.num_rows
        held.bytes += size
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES:
            self._flush_all()

    def _flush_all(self) -> None:
        for topic, partition in list(self._held):
            self._flush(topic, partition)

    def _begin_own_file(self, topic: int, partition: int) -> None:
        """Begin a file for one partition, unless too many are open."""
        own, layout = (topic, partition), self._layouts[topic]
        is_full = len(self._open.keys() - {None}) >= OWN_FILES_MAX
        if layout is not None and own not in self._open and not is_full:
            self._begin_file(own)
            self._write(own, bytes(layout.first_bytes))

    def _flush(self, topic: int, partition: int) -> None:
        held = self._held.pop((topic, partition))
        self._held_bytes -= held.bytes
        rows = pa.concat_batches(held.batches)
        content = _packed(rows)
        own = (topic, partition) if (topic, partition) in self._open else None
        layout, size_bytes = self._layouts[topic], None
        if own is not None and layout is not None:
            content, size_bytes = _message(content), _size_of(rows)
            self._write(own, bytes(layout.each_bytes))
        elif None not in self._open:
            self._begin_file(None)
        file = self._open[own]
        at, crc = file.size, google_crc32c.value(content)
        self._write(own, memoryview(content))
        about = (file.number, at, len(content), rows.num_rows, crc, size_bytes)
        self._blocks.append(Block(topic, partition, *about))
        if file.size >= FILE_BYTES:
            self._finish_file(own)

    def _begin_file(self, own: tuple[int, int] | None) -> None:
        name = staged_name(self._version, str(self._folder.clock.new_id()))
        self._open[own] = _Open(len(self._files))
        self._files.append(self._folder.new_file(name))
        self._names.append(name)

    def _write(self, own: tuple[int, int] | None, content: bytes | memoryview) -> None:
        file = self._open[own]
        self._files[file.number].write(memoryview(content))
        file.size += len(content)

    def _finish_file(self, own: tuple[int, int] | None) -> None:
        self._files[self._open.pop(own).number].finish()


def _packed(rows: pa.RecordBatch) -> pa.Buffer:
    """Return an Arrow stream of one batch."""
    size = pa.ipc.get_record_batch_size(rows) + rows.schema.serialize().size + _STREAM_ENDS
    made = pa.allocate_buffer(size)
    sink = pa.FixedSizeBufferWriter(made)
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return made.slice(0, sink.tell())


def _message(stream: pa.Buffer) -> pa.Buffer:
    """Return the message of the batch in a stream of one."""
    front = memoryview(stream)[:_PREFIX_BYTES]
    start = _PREFIX_BYTES + int.from_bytes(front[_PREFIX_BYTES // 2 :], "little")
    return stream.slice(start, stream.size - start - _PREFIX_BYTES)


def _size_of(rows: pa.RecordBatch) -> int:
    """Return the size of events: that of all their texts."""
    lengths = [_compute.sum(_compute.binary_length(each)) for each in rows.columns[:-1]]
    return sum(each.as_py() or 0 for each in lengths)


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces that a block, and a record, can hold."""
    if rows.nbytes <= BLOCK_BYTES and rows.num_rows <= BLOCK_ROWS:
        yield rows
    elif rows.num_rows > 1:
        middle = rows.num_rows // 2
        yield from _pieces(rows.slice(0, middle))
        yield from _pieces(rows.slice(middle))
    else:
        if rows.nbytes > RECORD_BYTES_MAX:
            raise too_large(rows.nbytes)
        yield rows
