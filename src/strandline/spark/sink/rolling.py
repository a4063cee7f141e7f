"""Appends the rows of a recorded batch, each once, also after any interruption."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import google_crc32c
import pyarrow as pa

from strandline.log import EventRows, Log, Value
from strandline.log.columns import EVENT_SCHEMA
from strandline.log.staged import StagedRows, discard, ingest
from strandline.spark.sink.intents import (
    Chunk,
    Intent,
    Intents,
    Progress,
    StagedPiece,
    intent_name,
)
from strandline.spark.sink.place import StagingFolder
from strandline.spark.sink.rows import KEY
from strandline.values import (
    IDEMPOTENCY_KEYS_KEPT,
    IDENTITY_AGE_S,
    CorruptError,
    Durability,
    Event,
    InvalidError,
    Marks,
    Record,
    Topic,
    UnavailableError,
    ValueKind,
)

#: The size of the chunks that are made durable together.
GROUP_BYTES: Final = 64 * 1024 * 1024
#: Smaller files are copied, so that a log does not get many small segments.
SEGMENT_BYTES_MIN: Final = 16 * 1024 * 1024

#: Half of what a log guarantees, since clocks differ.
_KEYS_SURE: Final = IDEMPOTENCY_KEYS_KEPT // 2
_AGE_SURE_US: Final = IDENTITY_AGE_S * 1_000_000 // 2
#: Without a lock: for so long after a step no other process is assumed to have continued.
_TRUST_S: Final = 5.0

#: How tasks stage events: as the columns of a frame.
_EVENT: Final = pa.schema(
    EVENT_SCHEMA.field(name).with_nullable(True)
    for name in (KEY, "kind", "payload", "headers", "occurred_at")
)

_logger = logging.getLogger("strandline")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The values of a chunk, with the key of each if it is not their own."""

    values: Sequence[Value]
    keys: Sequence[str | None] | None


def roll_forward(log: Log, folder: StagingFolder, intent: Intent, *, is_new: bool) -> None:
    """Append what is missing of a recorded batch, and mark it as finished.

    `is_new` if this process has just recorded it. Several chunks become durable together, and
    any chunk without a line of progress may be in the log. See design 0051.
    """
    progress = Progress(folder, intent.version)
    rolling = _Rolling(log, folder, intent, progress, is_new=is_new)
    groups = [*_groups(intent, progress.finished)]
    for group in groups:
        ends = [end for run in group for end in rolling.put_run(run)]
        rolling.make_durable(index for run in group for index in run)
        if group is not groups[-1]:
            progress.add(ends)
    Intents(folder).finish(intent)


def _groups(intent: Intent, first: int) -> Iterator[list[list[int]]]:
    """Yield the runs of chunks from `first` on, in groups that become durable together."""
    group: list[list[int]] = []
    size = 0
    for run in _runs(intent, first):
        group.append(run)
        size += _bytes_of(intent, run)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _runs(intent: Intent, first: int) -> Iterator[list[int]]:
    """Yield the chunks from `first` on; those of a file that may become a segment are one run."""
    run: list[int] = []
    for index in range(first, len(intent.chunks)):
        if run and _file(intent, index) != _file(intent, run[-1]):
            yield run
            run = []
        run.append(index)
        if _file(intent, index) is None:
            yield run
            run = []
    if run:
        yield run


def _file(intent: Intent, index: int) -> int | None:
    """Return the number of the chunk's file if that may become a segment; else None."""
    chunk = intent.chunks[index]
    return chunk.pieces[0].file if chunk.is_laid_out else None


def _bytes_of(intent: Intent, run: Sequence[int]) -> int:
    return sum(piece.length for index in run for piece in intent.chunks[index].pieces)


class _Rolling:
    """One pass over the chunks of a batch.

    Invariant: the chunks of a partition are appended in order, so that none of them is in the
    log after one that is not.
    """

    def __init__(
        self, log: Log, folder: StagingFolder, intent: Intent, progress: Progress, *, is_new: bool
    ) -> None:
        self._log = log
        self._folder = folder
        self._intent = intent
        self._topics = [Topic.from_json(text.encode()) for text in intent.topics]
        self._kinds = {
            topic: log.describe_topic(topic).settings.value_kind
            for topic in _kept(log, self._topics)
        }
        self._level = Durability.parse(intent.durability)
        #: The last time at which none of the remaining chunks could be in the log.
        self._since_us = progress.steps[-1].at_us if progress.steps else intent.recorded_at_us
        self._ends = {intent.chunks[step.finished - 1].place: step.end for step in progress.steps}
        #: The partitions of which no remaining chunk can be in the log.
        self._sure = {chunk.place for chunk in intent.chunks} if is_new else set()
        self._sure_at = folder.clock.monotonic()

    def put_run(self, run: Sequence[int]) -> list[int]:
        """Put these chunks into the log, and return the offset after each."""
        return self._ingest(run) or [self.put(index) for index in run]

    def _ingest(self, run: Sequence[int]) -> list[int] | None:
        """Make the file of these chunks a segment of the log; None if nothing was done.

        Only if none of them can be in the log: frame heads are written to the file, and
        otherwise it might be a segment already.
        """
        chunk = self._intent.chunks[run[0]]
        path = self._folder.path_for_store(self._intent.files[chunk.pieces[0].file])
        topic = self._topics[chunk.topic]
        if (
            path is None
            or topic not in self._kinds
            or not chunk.is_laid_out
            or _bytes_of(self._intent, run) < SEGMENT_BYTES_MIN
        ):
            return None
        if not self._is_sure(chunk):
            # Of a try that was killed, the file may have kept a second name in the log.
            discard(self._log, topic, chunk.partition, path)
            return None
        pieces = [self._intent.chunks[index].pieces[0] for index in run]
        rows = [
            StagedRows(each.offset, each.length, each.crc, each.rows, each.size_bytes or 0, key)
            for each, key in zip(pieces, map(self._intent.key, run), strict=True)
        ]
        start = ingest(self._log, topic, chunk.partition, path, rows)
        if start is None:
            return None
        ends = [*accumulate((each.rows for each in pieces), initial=start)][1:]
        self._ends[chunk.place] = ends[-1]
        return ends

    def put(self, index: int) -> int:
        """Put a chunk into the log, and return the offset after its last record."""
        chunk = self._intent.chunks[index]
        topic = self._topics[chunk.topic]
        if topic not in self._kinds:
            _logger.warning(
                "rows for the topic %s are left out, because it was dropped", topic.name
            )
            return 0
        rows = _rows(self._folder, self._intent, chunk, self._kinds[topic])
        step = _Step(self._log, topic, self._intent, index, rows)
        end = step.append() if self._is_sure(chunk) else self._settle(step, chunk)
        self._ends[chunk.place] = end
        return end

    def make_durable(self, group: Iterable[int]) -> None:
        """Sync each partition of these chunks once."""
        if self._level is not Durability.DURABLE:
            return
        for topic, partition in dict.fromkeys(self._intent.chunks[each].place for each in group):
            if self._topics[topic] in self._kinds:
                self._log.sync(self._topics[topic], partition)

    def _is_sure(self, chunk: Chunk) -> bool:
        now = self._folder.clock.monotonic()
        # Without a lock, another process may have continued while this one was suspended.
        if not self._folder.is_exclusive and now - self._sure_at > _TRUST_S:
            self._sure.clear()
        self._sure_at = now
        return chunk.place in self._sure

    def _settle(self, step: "_Step", chunk: Chunk) -> int:
        """Append the rows unless they are in the log already.

        The log recognises a repeat as long as it keeps the identity of the append. After that,
        the rows are searched for among the records that were appended since.
        """
        start = self._ends.get(chunk.place, chunk.start)
        marks = self._log.marks(step.topic, chunk.partition)
        if marks.high <= start or self._is_in_window(step, marks, start):
            return step.append()
        found = step.search(max(start, int(marks.low)))
        if found is not None:
            return found
        if marks.low > start:
            raise InvalidError(
                "a recorded batch was interrupted so long ago that the log no longer knows whether "
                "some of its rows are stored, and where they would be was trimmed: remove the file "
                "to leave them out, and write again what is missing",
                file=self._folder.path_of(intent_name(self._intent.version)),
                topic=step.topic.name,
                partition=chunk.partition,
            )
        self._sure.add(chunk.place)
        return step.append()

    def _is_in_window(self, step: "_Step", marks: Marks, start: int) -> bool:
        """Whether the log certainly keeps the identity of the append, if there was one."""
        now_us = self._folder.clock.now_us()
        if marks.low < marks.high:
            (last,) = self._log.read(step.topic, step.chunk.partition, int(marks.high) - 1)
            now_us = max(now_us, last.timestamp_us)
        return marks.high - start <= _KEYS_SURE and now_us - self._since_us <= _AGE_SURE_US


def _kept(log: Log, topics: Sequence[Topic]) -> Iterator[Topic]:
    """Yield the topics that were not dropped since; rows of the others are left out."""
    for topic in topics:
        if topic in log.topics(tenant=topic.tenant):
            yield topic


@dataclass(frozen=True, slots=True)
class _Step:
    """One chunk of a batch."""

    log: Log
    topic: Topic
    intent: Intent
    index: int
    rows: _Rows

    @property
    def chunk(self) -> Chunk:
        return self.intent.chunks[self.index]

    def append(self) -> int:
        """Append the rows and return the offset after the last; a repeat adds nothing."""
        receipts = self.log.append_many(
            self.topic,
            self.rows.values,
            keys=self.rows.keys,
            partition=self.chunk.partition,
            tenant=self.intent.tenant,
            durability=Durability.WRITTEN,
            idempotency_key=self.intent.key(self.index),
        )
        return receipts[len(receipts) - 1].offset + 1

    def search(self, start: int) -> int | None:
        """Return the offset after the rows if they follow each other somewhere from `start` on."""
        keys = self.rows.keys or [None] * len(self.rows.values)
        wanted = [_meaning(v, k) for v, k in zip(self.rows.values, keys, strict=True)]
        recent: list[object] = []
        for record in self.log.read(self.topic, self.chunk.partition, start):
            recent.append(_meaning(record.value, _own_key(record)))
            if len(recent) > len(wanted):
                del recent[0]
            if recent[-1] == wanted[-1] and recent == wanted:
                return int(record.offset) + 1
        return None


def _own_key(record: Record) -> str | None:
    return None if isinstance(record.value, Event) else record.key


def _meaning(value: Value, key: str | None) -> object:
    if isinstance(value, Event):
        return value.parts()
    if isinstance(value, bytes):
        return value, key
    batch: pa.RecordBatch = value
    return batch.schema.serialize().to_pybytes(), batch.to_pydict(), key


def _rows(folder: StagingFolder, intent: Intent, chunk: Chunk, kind: ValueKind) -> _Rows:
    contents = [_content(folder, intent, piece) for piece in chunk.pieces]
    if kind is ValueKind.EVENT and len(contents) == 1:
        return _Rows(_ready_events(contents[0], is_message=chunk.is_laid_out), None)
    # The task has validated each value, and the checksum is that of what it wrote.
    batches = [pa.ipc.open_stream(content).read_next_batch() for content in contents]
    if kind is ValueKind.BATCH:
        return _batches(batches)
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if kind is ValueKind.BYTES:
        return _Rows(rows.column("value").to_pylist(), rows.column(KEY).to_pylist())
    return _Rows(EventRows([rows.column(name) for name in _EVENT.names]), None)


def _content(folder: StagingFolder, intent: Intent, piece: StagedPiece) -> bytes:
    """Return a block of staged rows as the task wrote it."""
    name = intent.files[piece.file]
    try:
        content = folder.read_last(name, piece.offset, piece.length)
    except FileNotFoundError as error:
        if folder.is_exclusive:
            raise
        raise UnavailableError(
            "another process has finished this batch meanwhile, run it again",
            file=folder.path_of(name),
        ) from error
    if len(content) != piece.length or google_crc32c.value(content) != piece.crc:
        raise CorruptError(
            "staged rows of a recorded batch are damaged, restore the file to continue",
            file=folder.path_of(name),
            position=piece.offset,
        )
    return content


def _ready_events(content: bytes, *, is_message: bool) -> EventRows:
    """Return the rows of a block, with its message if a frame can contain it unchanged."""
    stream = pa.BufferReader(content)
    schema = _EVENT if is_message else pa.ipc.read_schema(stream)
    start = stream.tell()
    rows = pa.ipc.read_record_batch(pa.ipc.read_message(stream), schema)
    message = pa.py_buffer(content).slice(start, stream.tell() - start)
    arrays = [rows.column(name) for name in _EVENT.names]
    return EventRows(arrays, message=message if schema.equals(_EVENT) else None)


def _batches(staged: Sequence[pa.RecordBatch]) -> _Rows:
    """Return a batch for each run of rows with one key."""
    values: list[Value] = []
    keys: list[str | None] = []
    for rows in staged:
        named = rows.column(KEY)
        own = rows.drop_columns([KEY])
        if named.null_count == len(named):
            values.append(own)
            keys.append(None)
            continue
        texts = named.to_pylist()
        start = 0
        for end in range(1, len(texts) + 1):
            if end == len(texts) or texts[end] != texts[start]:
                values.append(own.slice(start, end - start))
                keys.append(texts[start])
                start = end
    return _Rows(values, keys)
