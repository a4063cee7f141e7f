"""Rows of a recorded batch on their way into the log, once each, whatever was done before."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import google_crc32c
import pyarrow as pa

from strandline.log import EventRows, Log, Value
from strandline.spark.sink.folder import AppFolder
from strandline.spark.sink.intents import Chunk, Intent, Intents, Progress, intent_name
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
    ValueKind,
)
from strandline.values.batches import decode_batch

#: Half of what a log promises: clocks differ.
_KEYS_SURE: Final = IDEMPOTENCY_KEYS_KEPT // 2
_AGE_SURE_US: Final = IDENTITY_AGE_S * 1_000_000 // 2

_logger = logging.getLogger("strandline")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The values of a chunk, with the key of each if it is not their own."""

    values: Sequence[Value]
    keys: Sequence[str | None] | None


def roll_forward(log: Log, folder: AppFolder, intent: Intent, *, is_new: bool) -> None:
    """Append what is missing of a recorded batch, and say that it is finished.

    `is_new` of one that was recorded just now, of which nothing can be in the log.
    """
    progress = Progress(folder, intent.version)
    topics = [Topic.from_json(text.encode()) for text in intent.topics]
    kept = {topic: log.describe_topic(topic).settings.value_kind for topic in _kept(log, topics)}
    # Invariant: of the chunks after the finished ones, the first alone may be in the log.
    is_doubtful = not is_new
    for index in range(progress.finished, len(intent.chunks)):
        chunk = intent.chunks[index]
        topic = topics[chunk.topic]
        if topic in kept:
            rows = _rows(folder, intent, chunk, kept[topic])
            file = folder.path_of(intent_name(intent.version))
            step = _Step(log, topic, intent, index, rows, folder.clock.now_us(), file)
            progress.add(step.settle(progress) if is_doubtful else step.append())
        else:
            _logger.warning("rows for the topic %s went with it when it was dropped", topic.name)
            progress.add(0)
        is_doubtful = False
    Intents(folder).finish(intent)


def _kept(log: Log, topics: Sequence[Topic]) -> Iterator[Topic]:
    """Yield the topics that were not dropped since: a record goes with its topic."""
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
    now_us: int
    file: str

    @property
    def _chunk(self) -> Chunk:
        return self.intent.chunks[self.index]

    def append(self) -> int:
        """Append the rows and return the offset after the last; a repeat adds nothing."""
        receipts = self.log.append_many(
            self.topic,
            self.rows.values,
            keys=self.rows.keys,
            partition=self._chunk.partition,
            tenant=self.intent.tenant,
            durability=Durability.parse(self.intent.durability),
            idempotency_key=f"spark:{self.intent.id}:{self.index}",
        )
        return receipts[len(receipts) - 1].offset + 1

    def settle(self, progress: Progress) -> int:
        """Do what `append` does, whether the rows are in the log already or not.

        The log detects it by itself for as long as it keeps the append's identity. After
        that the rows are looked for among those that came since.
        """
        start, since_us = self._since(progress)
        marks = self.log.marks(self.topic, self._chunk.partition)
        if marks.high <= start or self._is_in_window(marks, start, since_us):
            return self.append()
        found = self._search(max(start, int(marks.low)))
        if found is not None:
            self.log.sync(self.topic, self._chunk.partition)
            return found
        if marks.low > start:
            raise InvalidError(
                "a recorded batch was interrupted so long ago that the log no longer knows whether "
                "some of its rows are stored, and where they would be was trimmed: remove the file "
                "to leave them out, and write again what is missing",
                file=self.file,
                topic=self.topic.name,
                partition=self._chunk.partition,
            )
        return self.append()

    def _since(self, progress: Progress) -> tuple[int, int]:
        """Return from where on, and from when on, the rows can be in the log."""
        if progress.steps:
            step = progress.steps[-1]
            before = self.intent.chunks[step.finished - 1]
            if (before.topic, before.partition) == (self._chunk.topic, self._chunk.partition):
                return step.end, step.at_us
            return self._chunk.start, step.at_us
        return self._chunk.start, self.intent.recorded_at_us

    def _is_in_window(self, marks: Marks, start: int, since_us: int) -> bool:
        """Whether the log surely knows the append, if there was one."""
        now_us = self.now_us
        if marks.low < marks.high:
            (last,) = self.log.read(self.topic, self._chunk.partition, int(marks.high) - 1)
            now_us = max(now_us, last.timestamp_us)
        return marks.high - start <= _KEYS_SURE and now_us - since_us <= _AGE_SURE_US

    def _search(self, start: int) -> int | None:
        """Return the offset after the rows if they follow each other somewhere from `start` on."""
        keys = self.rows.keys or [None] * len(self.rows.values)
        wanted = [_meaning(v, k) for v, k in zip(self.rows.values, keys, strict=True)]
        recent: list[object] = []
        for record in self.log.read(self.topic, self._chunk.partition, start):
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


def _rows(folder: AppFolder, intent: Intent, chunk: Chunk, kind: ValueKind) -> _Rows:
    batches = []
    for piece in chunk.pieces:
        name = intent.files[piece.file]
        content = folder.read(name, piece.offset, piece.length)
        if len(content) != piece.length or google_crc32c.value(content) != piece.crc:
            raise CorruptError(
                "staged rows of a recorded batch are damaged, restore the file to go on",
                file=folder.path_of(name),
                position=piece.offset,
            )
        batches.append(decode_batch(content))
    if kind is ValueKind.BATCH:
        return _batches(batches)
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if kind is ValueKind.BYTES:
        return _Rows(rows.column("value").to_pylist(), rows.column(KEY).to_pylist())
    names = (KEY, "kind", "payload", "headers", "occurred_at")
    return _Rows(EventRows([rows.column(name) for name in names]), None)


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
