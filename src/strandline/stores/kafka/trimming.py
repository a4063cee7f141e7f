"""Checkpoints: they replace the frames before them, so that these can be removed."""

import contextlib
from typing import NamedTuple

import msgspec

from strandline.log.identities import Identities, IdentityState
from strandline.log.moved import check_unused
from strandline.stores.frame_marks import FrameMarks
from strandline.stores.kafka.errors import GoneError
from strandline.stores.kafka.frames import (
    NAME_BYTES,
    Checkpoint,
    KafkaFrame,
    PartitionEnd,
)
from strandline.stores.kafka.identities import KafkaIdentities
from strandline.stores.kafka.partition import KafkaPartition
from strandline.stores.kafka.publishing import publish
from strandline.values import StrandlineError


class KafkaRelease(NamedTuple):
    """The state after records were removed."""

    marks: FrameMarks
    end: PartitionEnd
    is_released: bool


def release(
    partition: KafkaPartition, identities: KafkaIdentities, low: int, before: int
) -> KafkaRelease:
    """Raise the low-water mark to `low`, and remove records before `before`."""
    while True:
        marks, end = partition.ends()
        target = max(marks.oldest, min(before, end.next))
        new_low = max(marks.low, min(low, end.next))
        try:
            if target > marks.oldest or new_low > marks.low:
                changed = _moved(partition, marks, end, target)
                changed = msgspec.structs.replace(changed, low=new_low)
                if not _store(partition, end, changed, identities.state(end)):
                    continue
                identities.set_saved()
                marks, end = partition.ends()
            return KafkaRelease(marks, end, _delete(partition, marks, end))
        except GoneError:
            # Another process has removed more since.
            partition.forget_places()


def begin_at(
    partition: KafkaPartition, start: int, anchor: bytes | None, identities: IdentityState
) -> None:
    """Make a partition without records begin at `start`."""
    while True:
        marks, end = partition.ends()
        check_unused(end.next)
        own = anchor if marks.anchor is not None else None
        begun = FrameMarks(start, start, 0, own, marks.epochs)
        kept = Identities.of(identities, start).state()
        if _store(partition, end._replace(next=start, value=own), begun, kept):
            return


def begin_epoch(partition: KafkaPartition, identities: KafkaIdentities, acknowledged: int) -> None:
    """Begin an epoch: records acknowledged up to `acknowledged` may be missing."""
    while True:
        marks, end = partition.ends()
        start = min(acknowledged, end.next)
        number, _, last_start = marks.epochs[-1]
        if last_start >= start and number:
            return
        epochs = [*marks.epochs, (number + 1, partition.clients.clock.new_id(), start)]
        changed = msgspec.structs.replace(marks, epochs=epochs)
        if _store(partition, end, changed, identities.state(end)):
            return


def save(partition: KafkaPartition, identities: KafkaIdentities) -> None:
    """Store the identities, so that the next process has to read only few frames."""
    # If that fails, a later append tries again.
    with contextlib.suppress(StrandlineError, GoneError):
        marks, end = partition.ends()
        _store(partition, end, marks, identities.state(end))
    identities.set_saved()


def _store(
    partition: KafkaPartition, end: PartitionEnd, marks: FrameMarks, known: IdentityState
) -> bool:
    saved = Checkpoint(marks, known, end.last_us, end.value)
    frame = KafkaFrame(
        *(partition.clients.clock.random_bytes(NAME_BYTES), end.name, end.end, end.next),
        *(end.bytes_total, end.checkpoint, end.identified),
        records=[],
        identities=[],
        saved=saved,
    )
    return publish(partition, frame, partition.clients.tries())


def _moved(
    partition: KafkaPartition, marks: FrameMarks, end: PartitionEnd, target: int
) -> FrameMarks:
    """Return the marks of a partition whose oldest record is at `target`."""
    if target == marks.oldest:
        return marks
    if target == end.next:
        bytes_before, anchor = end.bytes_total, end.value
    else:
        frame = partition.frame_with(target - 1, end).frame
        gone = frame.records[: target - frame.start]
        bytes_before = frame.bytes_before + sum(each.size_bytes for each in gone)
        anchor = gone[-1].chained
    return FrameMarks(marks.low, target, bytes_before, anchor, marks.epochs)


def _delete(partition: KafkaPartition, marks: FrameMarks, end: PartitionEnd) -> bool:
    """Remove messages that are not needed; False if the first also has older records."""
    if end.checkpoint < 0:
        return True
    is_whole, at = True, end.checkpoint
    if marks.oldest < end.next:
        placed = partition.frame_with(marks.oldest, end)
        is_whole, at = placed.frame.start == marks.oldest, min(at, placed.at)
    partition.asked(lambda: partition.clients.delete_before(partition.place, at))
    return is_whole
