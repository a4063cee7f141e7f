"""Marks, epochs and positions of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import msgspec

from strandline.values.errors import DivergedError, InvalidError, TrimmedError
from strandline.values.topic import Offset, Partition


# A struct, because one is made for each query of a partition, and structs are made in C.
class Marks(msgspec.Struct, frozen=True):
    """The ends of a partition. Invariant: low <= durable <= high."""

    low: Offset
    """The oldest stored offset."""
    high: Offset
    """One past the last written record."""
    durable: Offset
    """One past the last durable record; `low` if no stored record is durable."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of a partition: its records begin at `start` and end where the next begins."""

    number: int
    id: UUID
    start: Offset


@dataclass(frozen=True, slots=True)
class Position:
    """An offset together with the history to which it belongs.

    `epoch` and `epoch_id` are those of the record before `offset`, the last one that
    the holder has read; at offset 0, those of the partition's first epoch.
    """

    log_id: UUID
    topic_id: UUID
    partition: Partition
    offset: Offset
    epoch: int
    epoch_id: UUID

    def to_json(self) -> bytes:
        """Return the position as versioned JSON."""
        return msgspec.json.encode(
            _PositionV1(
                1,
                self.log_id,
                self.topic_id,
                self.partition,
                self.offset,
                self.epoch,
                self.epoch_id,
            )
        )

    @classmethod
    def from_json(cls, data: bytes) -> "Position":
        """Return the position that `to_json` has encoded; InvalidError for anything else."""
        try:
            stored = _decode(data)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise InvalidError("this is not a stored position", reason=str(error)) from error
        if min(stored.partition, stored.offset, stored.epoch) < 0:
            raise InvalidError("the numbers of a position are not negative", position=data)
        return cls(
            stored.log_id,
            stored.topic_id,
            Partition(stored.partition),
            Offset(stored.offset),
            stored.epoch,
            stored.epoch_id,
        )


def epoch_before(offset: int, epochs: Sequence[Epoch]) -> Epoch:
    """Return the epoch of the record before `offset`, or the first epoch."""
    earlier = [epoch for epoch in epochs if epoch.start < offset]
    return earlier[-1] if earlier else epochs[0]


def checked_position(position: object) -> Position:
    """Return a position; InvalidError for anything else."""
    if isinstance(position, Position):
        return position
    raise InvalidError("a position is a Position", type=type(position).__name__)


def check_position(position: Position, epochs: Sequence[Epoch], marks: Marks) -> Offset:
    """Return the offset of the position, if the history before it is unchanged.

    Raises DivergedError if records before it were lost and replaced, TrimmedError if
    it lies below the low-water mark, InvalidError if it lies beyond the end.
    """
    for index, epoch in enumerate(epochs):
        if epoch.number < position.epoch:
            continue
        if (epoch.number, epoch.id) != (position.epoch, position.epoch_id):
            raise DivergedError(min(epoch.start, position.offset), **_shown(position))
        following = epochs[index + 1 :]
        if following and position.offset > following[0].start:
            raise DivergedError(following[0].start, **_shown(position))
        break
    else:
        raise DivergedError(min(marks.high, position.offset), **_shown(position))
    if position.offset > marks.high:
        raise InvalidError("this position lies beyond the end", end=marks.high, **_shown(position))
    if position.offset < marks.low:
        raise TrimmedError(marks.low, **_shown(position))
    return position.offset


def _shown(position: Position) -> dict[str, object]:
    return {
        "partition": position.partition,
        "offset": position.offset,
        "epoch": position.epoch,
    }


class _PositionV1(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    log_id: UUID
    topic_id: UUID
    partition: int
    offset: int
    epoch: int
    epoch_id: UUID


_decode = msgspec.json.Decoder(_PositionV1).decode
