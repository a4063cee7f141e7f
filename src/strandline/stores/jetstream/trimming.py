"""Removes records: first updates marks and identities, then removes the messages."""

from typing import NamedTuple
from uuid import UUID

from strandline.log.identities import Identities, IdentityState
from strandline.log.moved import check_unused
from strandline.stores.jetstream.identities import PartitionIdentities, pieces_of
from strandline.stores.jetstream.partition import (
    JetStreamPartition,
    PartitionMarks,
    StoredMarks,
    StreamHead,
)


class ReleasedRecords(NamedTuple):
    """The state after records were removed."""

    marks: PartitionMarks
    head: StreamHead
    is_released: bool


async def release(
    partition: JetStreamPartition, identities: PartitionIdentities, low: int, before: int
) -> ReleasedRecords:
    """Raise the low-water mark to `low`, and remove records before `before`.

    The identities of removed records are stored with the new marks, in one change.
    """
    while True:
        stored = await partition.stored_marks()
        marks, head = await partition.ends()
        target = max(marks.oldest, min(before, head.next))
        new_low = max(marks.low, min(low, head.next))
        if target == marks.oldest and new_low == marks.low:
            break
        known = await identities.catch_up(head)
        if target > marks.oldest:
            marks = await _moved(partition, marks, head, target)
        marks = _with_low(marks, new_low)
        if await store_marks(partition, stored, marks, known.state(), head.identity_sequence):
            identities.unsaved = 0
            break
    is_released = await _purge(partition, marks, head)
    return ReleasedRecords(marks, head, is_released)


async def begin_at(
    partition: JetStreamPartition, start: int, anchor: bytes | None, identities: IdentityState
) -> None:
    """Make a partition without records begin at `start`."""
    while True:
        stored = await partition.stored_marks()
        marks, head = await partition.ends()
        check_unused(head.next)
        own = anchor if marks.anchor is not None else None
        begun = PartitionMarks(start, start, 0, own, marks.epochs)
        kept = Identities.of(identities, start).state()
        if await store_marks(partition, stored, begun, kept, 0):
            return


async def begin_epoch(partition: JetStreamPartition, epoch_id: UUID, start: int) -> None:
    """Begin an epoch: the last acknowledged records may be missing."""
    while True:
        stored = await partition.stored_marks()
        marks = stored.marks
        if marks.epochs[-1][2] >= start and len(marks.epochs) > 1:
            return
        epochs = [*marks.epochs, (marks.epochs[-1][0] + 1, epoch_id, start)]
        changed = PartitionMarks(
            *(marks.low, marks.oldest, marks.bytes_before, marks.anchor, epochs),
            *(marks.identity_sequence, marks.identity_pieces),
        )
        subject = partition.marks_subject
        if await partition.keyed.put(subject, changed.to_bytes(), stored.sequence) is not None:
            return


async def store_marks(
    partition: JetStreamPartition,
    stored: StoredMarks,
    marks: PartitionMarks,
    identities: IdentityState,
    sequence: int,
) -> bool:
    """Replace marks and identities unless they changed meanwhile; return whether they were."""
    pieces = pieces_of(identities, partition.connection.max_payload)
    changed = PartitionMarks(
        *(marks.low, marks.oldest, marks.bytes_before, marks.anchor, marks.epochs),
        *(sequence, len(pieces)),
    )
    subject, identities_subject = partition.marks_subject, partition.identities_subject
    values = [(subject, changed.to_bytes())]
    values += [(f"{identities_subject}.{number}", each) for number, each in enumerate(pieces)]
    return await partition.keyed.put_all(subject, values, stored.sequence) is not None


def _with_low(marks: PartitionMarks, low: int) -> PartitionMarks:
    return PartitionMarks(low, marks.oldest, marks.bytes_before, marks.anchor, marks.epochs)


async def _moved(
    partition: JetStreamPartition, marks: PartitionMarks, head: StreamHead, target: int
) -> PartitionMarks:
    """Return the marks of a partition whose oldest record is at `target`."""
    if target == head.next:
        bytes_before, anchor = head.bytes_total, head.value
    else:
        _, frame = await partition.locate(target - 1, head)
        gone = frame.records[: target - frame.start]
        bytes_before = frame.bytes_before + sum(each.size_bytes for each in gone)
        anchor = gone[-1].chained
    return PartitionMarks(marks.low, target, bytes_before, anchor, marks.epochs)


async def _purge(partition: JetStreamPartition, marks: PartitionMarks, head: StreamHead) -> bool:
    """Remove messages with only older records; False if some must stay for their other records.

    The last message always stays, because it shows where the partition ends.
    """
    if not head.sequence:
        return True
    if marks.oldest >= head.next:
        await partition.stream.purge(seq=head.sequence)
        return False
    first = await partition.stream.get(seq=0, next_by_subj=f"{partition.subject}.*")
    if first is None:
        return True
    sequence, frame = await partition.locate(marks.oldest, head)
    if first.sequence < sequence:
        await partition.stream.purge(seq=sequence)
    return frame.start == marks.oldest
