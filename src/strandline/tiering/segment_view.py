"""The catalogue's view: folds steps into the state of the tier."""

from uuid import UUID

import msgspec

from strandline.log import Value
from strandline.tiering.partition_copies import PartitionCopies
from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    PartitionDeletion,
    PartitionEviction,
    SegmentChange,
    SegmentState,
    Step,
    UserPartition,
    may_be_deleted,
    may_become,
    step_of,
)
from strandline.values import Event, Record
from strandline.views import RefusedError, View


class CatalogueState:
    """The copies of every user partition that belongs to one partition of the catalogue."""

    def __init__(self) -> None:
        self.places: dict[UserPartition, PartitionCopies] = {}


class SegmentView(View[CatalogueState]):
    """Accepts or refuses each step; every process decides equally."""

    version = 1

    def initial(self, partition: int) -> CatalogueState:  # noqa: ARG002 - All begin alike.
        return CatalogueState()

    def apply(self, state: CatalogueState, record: Record) -> None:
        take(state, step_of(record.kind, record.payload))

    def check(self, state: CatalogueState, value: Value) -> None:
        assert isinstance(value, Event)
        _check(state, step_of(value.kind, value.payload))

    def encode(self, state: CatalogueState) -> bytes:
        return msgspec.json.encode(
            [
                _Stored(
                    place,
                    list(copies.listed()),
                    list(copies.finished),
                    sorted(copies.copied.items()),
                    copies.deletion,
                    copies.evicted,
                )
                for place, copies in sorted(state.places.items(), key=lambda each: each[0].identity)
            ]
        )

    def decode(self, stored: bytes) -> CatalogueState:
        state = CatalogueState()
        for each in msgspec.json.decode(stored, type=list[_Stored]):
            copies = state.places[each.place] = PartitionCopies()
            copies.restore(each.segments, each.finished)
            copies.copied = dict(each.copied)
            copies.deletion = each.deletion
            copies.evicted = each.evicted
        return state


class _Stored(msgspec.Struct):
    place: UserPartition
    segments: list[CopiedSegment]
    finished: list[UUID]
    copied: list[tuple[int, int]]
    deletion: DeletionState | None
    evicted: int


def take(state: CatalogueState, step: Step) -> None:
    """Apply one step to `state`; RefusedError, with nothing changed, if it is not legal."""
    _check(state, step)
    copies = state.places.setdefault(step.place, PartitionCopies())
    if isinstance(step, CopiedSegment):
        copies.put(step)
    elif isinstance(step, SegmentChange):
        known = copies.segments[step.id]
        if known.state is not step.state:
            changed = msgspec.structs.replace(
                known, state=step.state, changed_at_us=step.changed_at_us
            )
            if (step.note_text, step.note_bytes) != (None, None):
                changed = msgspec.structs.replace(
                    changed, note_text=step.note_text, note_bytes=step.note_bytes
                )
            copies.put(changed)
    elif isinstance(step, PartitionEviction):
        copies.evicted = max(copies.evicted, step.before)
    else:
        copies.deletion = step.state
        if step.state is DeletionState.FINISHED:
            copies.clear()


def _check(state: CatalogueState, step: Step) -> None:
    copies = state.places.get(step.place)
    if isinstance(step, PartitionDeletion):
        now = None if copies is None else copies.deletion
        if not may_be_deleted(now, step.state):
            raise RefusedError(
                "a partition is deleted in three steps: marked, started, finished",
                now=None if now is None else now.name,
                wanted=step.state.name,
            )
    elif copies is not None and copies.deletion is DeletionState.FINISHED:
        raise RefusedError("this partition was deleted from the tier", place=step.place)
    elif isinstance(step, CopiedSegment):
        _check_added(copies, step)
    elif isinstance(step, PartitionEviction):
        _check_eviction(copies or PartitionCopies(), step)
    else:
        known = None if copies is None else copies.segments.get(step.id)
        if known is None or copies is None:
            raise RefusedError("the catalogue has no such segment", id=step.id)
        if not may_become(known.state, step.state):
            raise RefusedError(
                "a segment cannot change between these states",
                id=step.id,
                now=known.state.name,
                wanted=step.state.name,
            )
        if step.state is SegmentState.DELETE_STARTED:
            _check_not_needed(copies, known, step.low)
        elif known.state is SegmentState.COPY_STARTED:
            _check_finished(copies, known, step)


def _check_eviction(copies: PartitionCopies, step: PartitionEviction) -> None:
    reached = copies.covered_to(max(step.start, copies.evicted), step.before)
    if copies.deletion is not None or reached < step.before:
        raise RefusedError(
            "only what has a finished copy may be evicted", before=step.before, copied=reached
        )


def _check_not_needed(copies: PartitionCopies, known: CopiedSegment, low: int) -> None:
    """Refuse to delete the only copy of records that the log may have evicted."""
    if copies.is_merged(known) and copies.merged_into(known):
        raise RefusedError("the copies that it has merged must be deleted first", id=known.id)
    start, end = max(known.start, low), min(known.end, copies.evicted)
    if known.state is not SegmentState.COPY_FINISHED or start >= end:
        return
    if copies.covered_to(start, end, besides=known.id) < end:
        raise RefusedError("this is the only copy of records that were evicted", id=known.id)


def _check_finished(copies: PartitionCopies, known: CopiedSegment, step: SegmentChange) -> None:
    if len(copies.merged_into(known)) < len(known.merges):
        # It may contain records that were erased meanwhile.
        raise RefusedError("a copy that was to be merged is gone", id=known.id)
    if step.is_apart and copies.is_overlapped(known.start, known.end):
        # The run grew while another process copied a part or more of it. The next run copies the
        # rest: overlapping copies cannot both be files of a table.
        raise RefusedError("another copy holds some of these records", id=known.id)


def _check_merged(copies: PartitionCopies, step: CopiedSegment) -> None:
    """Refuse to merge anything but finished, adjacent copies, each in only one merge."""
    at = step.start
    for each in step.merges:
        known = copies.segments.get(each)
        if known is None or known.state is not SegmentState.COPY_FINISHED:
            raise RefusedError("a copy that is to be merged is gone", id=step.id, other=each)
        if copies.successor(each) is not None:
            raise RefusedError("another copy replaces this one", id=step.id, other=each)
        if not step.start <= known.start <= at:
            raise RefusedError("only adjacent copies can be merged", other=each)
        at = max(at, known.end)
    if step.merges and at != step.end:
        raise RefusedError("a merged copy must end with the last of its copies", id=step.id, end=at)
    replaced = None if step.replaces is None else copies.successor(step.replaces)
    if replaced is not None and replaced.merges:
        raise RefusedError("this copy is being merged", id=step.id, other=step.replaces)


def _check_added(copies: PartitionCopies | None, step: CopiedSegment) -> None:
    if step.state is not SegmentState.COPY_STARTED:
        raise RefusedError("a segment is added when its copy starts", state=step.state.name)
    if copies is None:
        if step.merges:
            raise RefusedError("there is nothing to merge", id=step.id)
        return
    if copies.deletion is not None:
        raise RefusedError("this partition is being deleted from the tier", id=step.id)
    if step.id in copies.segments:
        raise RefusedError("the catalogue has this segment already", id=step.id)
    # So two processes that copy the same run concurrently share one copy.
    _check_merged(copies, step)
    if not step.predecessors and copies.is_in_merged(step.start, step.end):
        # By a process that started before the merge.
        raise RefusedError("a larger copy holds these records", id=step.id)
    other = copies.live(step.start, step.end)
    if other is not None and other != step.replaces:
        raise RefusedError("the same run is copied already", id=step.id, other=other)
