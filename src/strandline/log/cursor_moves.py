"""Moves of several cursors of one consumer in one write."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from strandline.log.gaps import Gaps
from strandline.values import Offset, Partition, Topic

if TYPE_CHECKING:
    from strandline.log.log import Log


class CursorMove(NamedTuple):
    """Where the cursor of a partition goes, and under which conditions."""

    end: int
    generation: int | None = None
    """The moving member's generation: LeaseLostError if another member holds the partition."""
    gaps: Gaps | None = None
    """The offsets settled beyond it; None leaves those stored before."""
    seek_id: UUID | None = None
    """The seek that the cursor depends on: ConflictError if another seek came after it."""
    is_seek: bool = False
    """Whether the cursor may go back."""


def ack_each(
    log: "Log",
    topic: Topic,
    consumer: str,
    moves: Mapping[int, CursorMove],
    *,
    tenant: str | None,
) -> Mapping[Partition, Offset]:
    """Do what `Log.ack` does in all of these partitions, or in none of them if it raises.

    A consumer's cursors are stored as one value: storing them one by one would read and write
    that value once for each partition.
    """
    # Sync up to the end of each gap first: those offsets must not be reused after a crash.
    ends = {
        number: move.end if move.gaps is None else max(move.end, move.gaps.end)
        for number, move in moves.items()
    }
    found, whose, name, numbers = log._access.starting(topic, consumer, tenant, ends)  # noqa: SLF001 - A part of the log.
    known = {number: moves[number] for number in numbers}
    return log._counts.acked(log._cursors.ack(found, whose, name, known))  # noqa: SLF001
