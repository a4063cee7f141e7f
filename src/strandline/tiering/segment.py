"""The catalogue's entry for a copied run of records, and its states."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

import msgspec

from strandline.values import InvalidError, Topic, parse_tenant


class SegmentState(IntEnum):
    """The state of a copy."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class DeletionState(IntEnum):
    """The state of removing everything of a partition from the tier."""

    MARKED = 0
    STARTED = 1
    FINISHED = 2


GIVEN_UP: Final = "given up"
"""The note of a copy whose store did not answer, and whose records another store has."""

_FOLLOWING = {
    SegmentState.COPY_STARTED: {SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED},
    SegmentState.COPY_FINISHED: {SegmentState.DELETE_STARTED},
    SegmentState.DELETE_STARTED: {SegmentState.DELETE_FINISHED},
    SegmentState.DELETE_FINISHED: set[SegmentState](),
}


def may_become(now: SegmentState, wanted: SegmentState) -> bool:
    """Whether a copy may go from one state to another; staying is always allowed."""
    return now == wanted or wanted in _FOLLOWING[now]


def may_be_deleted(now: DeletionState | None, wanted: DeletionState) -> bool:
    """Whether the removal of a partition may go to `wanted`; staying is always allowed."""
    return now == wanted or wanted == (0 if now is None else now + 1)


class UserPartition(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A partition whose records are copied. Its identity is only the topic's id and the number."""

    topic_id: UUID
    partition: int
    topic: str
    tenant: str | None = None

    @property
    def identity(self) -> tuple[UUID, int]:
        """The identity of this partition, whatever the name of its topic."""
        return self.topic_id, self.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserPartition) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def named(self) -> Topic:
        """Return the topic."""
        return Topic(self.topic, self.topic_id, parse_tenant(self.tenant))


def partition_of(topic: Topic, partition: int) -> UserPartition:
    """Return a partition of `topic`."""
    return UserPartition(topic.id, partition, topic.name, topic.tenant)


class CopiedSegment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run [start, end) of records, and the object that holds a copy of it.

    InvalidError for values that contradict each other.
    """

    id: UUID
    place: UserPartition
    start: int
    end: int
    #: Number and first offset of each epoch in it, rising.
    epochs: tuple[tuple[int, int], ...]
    first_us: int
    last_us: int
    #: The size of its records, as counted against limits.
    record_bytes: int
    #: The size of the object.
    size_bytes: int
    #: The object's SHA-256.
    digest: str
    #: The URL of the store, and the object's name there.
    store: str
    name: str
    changed_at_us: int
    #: `note`, as text or as bytes.
    note_text: str | None = msgspec.field(default=None, name="note")
    note_bytes: bytes | None = None
    state: SegmentState = SegmentState.COPY_STARTED
    #: The copy of the same run that it replaces, after records were erased.
    replaces: UUID | None = None
    #: The smaller copies that it replaces, together covering the same run.
    merges: tuple[UUID, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise InvalidError("a segment holds a record", start=self.start, end=self.end)
        if self.size_bytes < 0 or self.record_bytes < 0:
            raise InvalidError("a size is not negative", size_bytes=self.size_bytes)
        if len(self.epochs) == 1 and self.epochs[0][1] == self.start:
            return  # The usual case, kept fast: a catalogue has many.
        starts = [start for _, start in self.epochs]
        numbers = [number for number, _ in self.epochs]
        if not starts or starts[0] != self.start or starts[-1] >= self.end:
            raise InvalidError("the epochs of a segment begin with it", epochs=self.epochs)
        if starts != sorted(set(starts)) or numbers != sorted(set(numbers)):
            raise InvalidError("the epochs of a segment rise", epochs=self.epochs)

    @property
    def note(self) -> str | bytes | None:
        """What the store reported about the object, unchanged; None if nothing."""
        return self.note_text if self.note_bytes is None else self.note_bytes

    @property
    def predecessors(self) -> tuple[UUID, ...]:
        """The copies that it replaces."""
        return self.merges if self.replaces is None else (self.replaces, *self.merges)

    @property
    def location(self) -> str:
        """The object's URL, to show to people."""
        return f"{self.store.rstrip('/')}/{self.name}"

    def epoch_run(self, epoch: int) -> tuple[int, int] | None:
        """Return the [start, end) of this epoch in the segment; None if it has none."""
        return next((run for number, run in self.epoch_runs() if number == epoch), None)

    def epoch_runs(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the number of each epoch, with its [start, end) in the segment."""
        ends = (*(start for _, start in self.epochs[1:]), self.end)
        for (number, start), end in zip(self.epochs, ends, strict=True):
            yield number, (start, end)


class SegmentChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a copy's state."""

    id: UUID
    place: UserPartition
    state: SegmentState
    changed_at_us: int
    #: At most one is set; without either the segment keeps its note.
    note_text: str | None = msgspec.field(default=None, name="note")
    note_bytes: bytes | None = None
    #: The partition's low-water mark, as read by the process that records the step.
    low: int = 0
    #: Whether it may be finished only if no finished copy holds any of its records.
    is_apart: bool = False


class PartitionEviction(msgspec.Struct, frozen=True, kw_only=True):
    """The log is about to evict [start, before): from now on the copies are needed."""

    place: UserPartition
    start: int
    before: int
    changed_at_us: int


class PartitionDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the removal of a partition from the tier."""

    place: UserPartition
    state: DeletionState
    changed_at_us: int


Step = CopiedSegment | SegmentChange | PartitionEviction | PartitionDeletion

_KINDS: dict[str, type[Step]] = {
    "segment.added": CopiedSegment,
    "segment.changed": SegmentChange,
    "partition.evicted": PartitionEviction,
    "partition.deleted": PartitionDeletion,
}


def kind_of(step: Step) -> str:
    """Return the kind of the event that records `step`."""
    return next(kind for kind, each in _KINDS.items() if isinstance(step, each))


def step_of(kind: str, payload: Any) -> Step:
    """Return the step that an event records; raises if this version cannot read it."""
    wanted = _KINDS.get(kind)
    if wanted is None:
        raise InvalidError("the catalogue has no events of this kind", kind=kind)
    try:
        return msgspec.convert(payload, wanted)
    except msgspec.ValidationError as error:
        raise InvalidError("this is not a step of the catalogue", reason=str(error)) from error


def payload_of(step: Step) -> Any:
    """Return a step as the payload of an event."""
    return msgspec.to_builtins(step)
