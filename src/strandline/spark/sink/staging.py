"""What a task does: its rows in a file of their own, durable, each block of one partition."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from strandline.log import Log
from strandline.spark.sink.fingerprint import Fingerprint, fingerprint
from strandline.spark.sink.folder import AppFolder
from strandline.spark.sink.intents import staged_name
from strandline.spark.sink.rows import TOPIC, TopicRows, too_large, topic_rows
from strandline.values import RECORD_BYTES_MAX, InvalidError

BLOCK_ROWS: Final = 16_384
BLOCK_BYTES: Final = 4 * 1024 * 1024
#: What a task holds in memory at most, of all partitions together.
HELD_BYTES: Final = 64 * 1024 * 1024

_compute: Any = pc


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one partition, and where in the file they are."""

    topic: int
    partition: int
    offset: int
    length: int
    rows: int
    crc: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has staged, all that `commit` gets of it."""

    app: str
    version: int
    task: int
    #: None if there was nothing to write.
    name: str | None
    size: int
    #: Each as `Topic.to_json` has it.
    topics: tuple[str, ...]
    blocks: tuple[Block, ...]
    #: Topic id → what rows there are.
    fingerprints: dict[str, Fingerprint]


@dataclass(slots=True)
class _Held:
    """Rows of one partition that are still in memory."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


class Stager:
    """Stages the rows of one task."""

    def __init__(
        self,
        log: Log,
        folder: AppFolder,
        *,
        topic: str | None,
        tenant: str | None,
        version: int,
        task: int,
    ) -> None:
        self._log = log
        self._folder = folder
        self._topic = topic
        self._tenant = tenant
        self._version = version
        self._task = task
        self._shapes: dict[str, TopicRows] = {}
        self._prints: dict[str, Fingerprint] = {}
        self._held: dict[tuple[int, int], _Held] = {}
        self._held_bytes = 0
        self._blocks: list[Block] = []
        self._name = staged_name(version, str(folder.clock.new_id()))
        self._fd: int | None = None
        self._size = 0
        self._turn = task

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Return what was staged; it is durable then. On any error nothing is left behind."""
        try:
            for batch in batches:
                if batch.num_rows:
                    self._add(batch)
            self._flush_all()
            if self._fd is not None:
                self._folder.io.sync(self._fd)
                self._folder.io.sync_directory(self._folder.path)
        except BaseException:
            if self._fd is not None:
                self._folder.remove(self._name)
            raise
        finally:
            if self._fd is not None:
                self._folder.io.close(self._fd)
        return Staged(
            self._folder.app,
            self._version,
            self._task,
            None if self._fd is None else self._name,
            self._size,
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
            for partition, part in shape.split(shape.stored(plain), self._turn):
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
            shape = topic_rows(self._log, name, self._tenant)
            shape.check(columns)
            self._shapes[name] = shape
        return shape

    def _hold(self, topic: int, partition: int, rows: pa.RecordBatch) -> None:
        held = self._held.setdefault((topic, partition), _Held())
        held.batches.append(rows)
        held.rows += rows.num_rows
        held.bytes += rows.nbytes
        self._held_bytes += rows.nbytes
        if held.rows >= BLOCK_ROWS or held.bytes >= BLOCK_BYTES:
            self._flush(topic, partition)
        elif self._held_bytes > HELD_BYTES:
            self._flush_all()

    def _flush_all(self) -> None:
        for topic, partition in list(self._held):
            self._flush(topic, partition)

    def _flush(self, topic: int, partition: int) -> None:
        held = self._held.pop((topic, partition))
        self._held_bytes -= held.bytes
        rows = pa.concat_batches(held.batches)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        content = memoryview(sink.getvalue())
        folder = self._folder
        if self._fd is None:
            folder.make()
            self._fd = folder.io.open(folder.path_of(self._name), "create_new")
        folder.io.pwrite(self._fd, content, self._size)
        crc = google_crc32c.value(bytes(content))
        self._blocks.append(Block(topic, partition, self._size, len(content), rows.num_rows, crc))
        self._size += len(content)


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
