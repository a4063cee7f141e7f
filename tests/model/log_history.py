"""Checks a log that was opened again against the results that its users got.

`look` records what a log shows. A `LogHistory` records calls and their results, and knows what
must, may and must not be seen after a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal
from uuid import UUID

from strandline.log import Log
from strandline.values import DivergedError, Durability, Event, Marks, Position
from tests.model.history import History

CONSUMERS = ("billing", "audit")

Cursor = int | Literal["diverged"] | None


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record; its value is the number of an `event_of`, or the repr of anything else."""

    offset: int
    value: int | str
    timestamp_us: int


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """A partition: its marks, and everything in it."""

    low: int
    high: int
    durable: int
    records: tuple[SeenRecord, ...]


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """A topic, with its partitions and the cursors of the consumers known to tests."""

    id: UUID
    retention_bytes: int | None
    partitions: tuple[SeenPartition, ...]
    cursors: dict[tuple[str, int], Cursor]


Seen = dict[str, SeenTopic]


@lru_cache(maxsize=1024)
def event_of(number: int) -> Event:
    """Return the event with this number; events of different numbers differ, also in size."""
    text = "strand" * (number * number % 7) * (1 + 6 * (number % 5 == 4))
    return Event("kind", {"n": number, "text": text}, key=f"k{number}" if number % 3 else None)


def look(log: Log) -> Seen:
    """Return the topics of the log with their marks, records and cursors."""
    seen = {}
    for topic in log.topics():
        description = log.describe_topic(topic)
        seen[topic.name] = SeenTopic(
            topic.id,
            description.settings.retention_bytes,
            tuple(
                look_at(log, topic.name, partition, marks)
                for partition, marks in enumerate(description.marks)
            ),
            {
                (consumer, partition): _cursor(log, topic.name, consumer, partition)
                for consumer in CONSUMERS
                for partition in range(description.settings.partitions)
            },
        )
    return seen


def look_at(log: Log, topic: str, partition: int, marks: Marks) -> SeenPartition:
    """Return what the log shows of a partition with these marks."""
    records = []
    for record in log.read(topic, partition, marks.low):
        number = record.payload.get("n")
        expected = event_of(number) if isinstance(number, int) else None
        is_right = expected is not None and (record.value, record.key) == (expected, expected.key)
        value = number if is_right else repr(record.value)
        records.append(SeenRecord(record.offset, value, record.timestamp_us))
    return SeenPartition(marks.low, marks.high, marks.durable, tuple(records))


def _cursor(log: Log, topic: str, consumer: str, partition: int) -> Cursor:
    try:
        return log.cursor(topic, consumer, partition)
    except DivergedError:
        return "diverged"


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies a repeated write: a producer's sequence, or an idempotency key."""

    producer: str | None = None
    sequence: int | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class IdentifiedWrite:
    """An append that may be repeated."""

    topic: str
    partition: int
    identity: Identity
    numbers: Sequence[int]


@dataclass(slots=True)
class _PartitionHistory:
    writes: History = field(default_factory=History)
    stamps: dict[int | str, int] = field(default_factory=dict)
    low_confirmed: int = 0
    low_requested: int = 0
    durable_confirmed: int = 0


@dataclass(slots=True)
class _TopicHistory:
    state: Literal["requested", "there", "to be dropped", "gone"]
    id: UUID | None
    partitions: list[_PartitionHistory]
    retention: set[int | None]
    cursors: dict[tuple[str, int], set[Cursor]] = field(default_factory=dict)
    positions: list[Position] = field(default_factory=list)
    identified: list[IdentifiedWrite] = field(default_factory=list)


class LogHistory:
    """The calls of a log and their results: `before_…` a call, `after_…` it has returned."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicHistory] = {}

    @classmethod
    def of(cls, seen: Seen) -> "LogHistory":
        """Return the history of an observer that has seen this, and nothing else."""
        history = cls()
        for name, topic in seen.items():
            history.before_topic(name, len(topic.partitions))
            history.after_topic(name, topic.id)
            known = history._topics[name]
            known.retention = {topic.retention_bytes}
            known.cursors = {place: {cursor} for place, cursor in topic.cursors.items()}
            for partition, part in zip(known.partitions, topic.partitions, strict=True):
                partition.low_confirmed = partition.low_requested = part.low
                for record in part.records:
                    assert isinstance(record.value, int)
                    partition.writes.offer(record.value)
                    partition.writes.acknowledge(record.value, record.offset)
                    partition.stamps[record.value] = record.timestamp_us
                partition.writes.sync(part.durable)
                partition.durable_confirmed = part.durable
        return history

    @property
    def names(self) -> Sequence[str]:
        """The topics that certainly exist."""
        return [name for name, topic in self._topics.items() if topic.state == "there"]

    @property
    def positions(self) -> Sequence[Position]:
        """Positions in topics that are there, which must lead back to their offsets."""
        return [position for name in self.names for position in self._topics[name].positions]

    @property
    def identified(self) -> Sequence[IdentifiedWrite]:
        """Appends to topics that are there, which may be repeated."""
        return [write for name in self.names for write in self._topics[name].identified]

    def before_topic(self, name: str, partitions: int) -> None:
        """A topic is about to be created."""
        parts = [_PartitionHistory() for _ in range(partitions)]
        self._topics[name] = _TopicHistory("requested", None, parts, {None})

    def after_topic(self, name: str, topic_id: UUID) -> None:
        """The topic is there."""
        self._topics[name].state = "there"
        self._topics[name].id = topic_id

    def before_drop(self, name: str) -> None:
        """The topic is about to be dropped."""
        self._topics[name].state = "to be dropped"

    def after_drop(self, name: str) -> None:
        """The topic is gone."""
        self._topics[name].state = "gone"

    def before_retention(self, name: str, retention_bytes: int | None) -> None:
        """The retention is about to change."""
        self._topics[name].retention.add(retention_bytes)

    def after_retention(self, name: str, retention_bytes: int | None) -> None:
        """The retention has changed."""
        self._topics[name].retention = {retention_bytes}

    def before_append(
        self, name: str, partition: int, numbers: Sequence[int], identity: Identity | None = None
    ) -> None:
        """Events are about to be appended, together."""
        topic = self._topics[name]
        topic.partitions[partition].writes.offer(*numbers)
        if identity is not None:
            topic.identified.append(IdentifiedWrite(name, partition, identity, numbers))

    def after_append(
        self, name: str, partition: int, records: Sequence[SeenRecord], level: Durability
    ) -> None:
        """They are stored."""
        part = self._topics[name].partitions[partition]
        for record in records:
            assert isinstance(record.value, int)
            part.writes.acknowledge(record.value, record.offset, level)
            part.stamps[record.value] = record.timestamp_us

    def after_sync(self, name: str, partition: int, end: int) -> None:
        """Everything before `end` is durable."""
        part = self._topics[name].partitions[partition]
        part.writes.sync(end)
        part.durable_confirmed = max(part.durable_confirmed, end)

    def before_trim(self, name: str, partition: int, before: int) -> None:
        """Records are about to be removed."""
        part = self._topics[name].partitions[partition]
        part.low_requested = max(part.low_requested, before)

    def after_trim(self, name: str, partition: int, low: int) -> None:
        """They are gone."""
        part = self._topics[name].partitions[partition]
        part.low_confirmed = part.low_requested = low

    def before_cursor(self, name: str, consumer: str, partition: int, cursor: Cursor) -> None:
        """A cursor is about to move."""
        self._topics[name].cursors.setdefault((consumer, partition), {None}).add(cursor)

    def after_cursor(self, name: str, consumer: str, partition: int, cursor: Cursor) -> None:
        """It has moved."""
        self._topics[name].cursors[consumer, partition] = {cursor}

    def before_forget(self, name: str, consumer: str) -> None:
        """A consumer's cursors are about to be removed."""
        for owner, partition in self._topics[name].cursors:
            if owner == consumer:
                self.before_cursor(name, consumer, partition, None)

    def after_forget(self, name: str, consumer: str) -> None:
        """They are gone."""
        for owner, partition in self._topics[name].cursors:
            if owner == consumer:
                self.after_cursor(name, consumer, partition, None)

    def after_position(self, name: str, position: Position) -> None:
        """A position was stored elsewhere."""
        self._topics[name].positions.append(position)

    def lose_power(self) -> None:
        """What was not durable may be gone."""
        for topic in self._topics.values():
            for partition in topic.partitions:
                partition.writes.lose_power()
                # The records are there, but an opened log may not report them as durable yet.
                partition.durable_confirmed = 0

    def check(self, seen: Seen) -> list[str]:
        """Return everything that contradicts the history."""
        findings = [
            f"{name}: a topic that was not created" for name in seen if name not in self._topics
        ]
        for name, topic in self._topics.items():
            found = seen.get(name)
            if found is None:
                if topic.state == "there":
                    findings.append(f"{name}: the topic is lost")
            elif topic.state == "gone":
                findings.append(f"{name}: the topic has come back")
            else:
                findings += [f"{name}: {each}" for each in _check_topic(topic, found)]
        return findings


def _check_topic(topic: _TopicHistory, found: SeenTopic) -> list[str]:
    findings = []
    if topic.id not in (None, found.id):
        findings.append("it has another id")
    if found.retention_bytes not in topic.retention:
        findings.append(f"its retention is {found.retention_bytes}")
    if len(topic.partitions) != len(found.partitions):
        return [*findings, f"it has {len(found.partitions)} partitions"]
    for number, (part, seen) in enumerate(zip(topic.partitions, found.partitions, strict=True)):
        findings += [f"partition {number}: {each}" for each in _check_partition(part, seen)]
    for (consumer, number), cursor in found.cursors.items():
        known = topic.cursors.get((consumer, number), {None})
        if cursor not in known:
            findings.append(f"the cursor of {consumer} in {number} is {cursor}, not of {known}")
        if isinstance(cursor, int) and cursor > found.partitions[number].high:
            findings.append(f"the cursor of {consumer} in {number} is beyond the end")
    return findings


def _check_partition(part: _PartitionHistory, seen: SeenPartition) -> list[str]:
    content = [(record.offset, record.value) for record in seen.records]
    findings: list[str] = [
        f"{found.kind} at {found.offset}: {found.value}"
        for found in part.writes.check(content, low=seen.low)
    ]
    if not seen.low <= seen.durable <= seen.high:
        findings.append(f"marks {seen.low}, {seen.durable}, {seen.high}")
    if seen.durable < min(part.durable_confirmed, seen.high):
        findings.append(f"durable {seen.durable} was {part.durable_confirmed}")
    if seen.high - seen.low != len(seen.records):
        findings.append(f"{len(seen.records)} records in [{seen.low}, {seen.high})")
    if not part.low_confirmed <= seen.low <= part.low_requested:
        findings.append(f"low {seen.low} is not in [{part.low_confirmed}, {part.low_requested}]")
    if any(a.timestamp_us > b.timestamp_us for a, b in pairwise(seen.records)):
        findings.append("a timestamp goes back")
    findings += [
        f"another timestamp at {record.offset}"
        for record in seen.records
        if part.stamps.get(record.value, record.timestamp_us) != record.timestamp_us
    ]
    return findings
