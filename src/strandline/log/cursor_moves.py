"""Moves of several cursors of a consumer, in one write."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from strandline.log.gaps import Gaps
from strandline.values import Offset, Partition, Topic

if TYPE_CHECKING:
    from strandline.log.log import Log


class CursorMove(NamedTuple):
    """Where the cursor of a partition goes, and on which condition."""

    end: int
    generation: int | None = None
    """That of the member that moves it: LeaseLostError if another holds the partition."""
    gaps: Gaps | None = None
    """What is settled beyond it then; None for what is known."""
    seek_id: UUID | None = None
    """The seek that has put it there: ConflictError after another one."""
    is_seek: bool = False
    """Whether it may go back."""


def ack_each(
    log: "Log",
    topic: Topic,
    consumer: str,
    moves: Mapping[int, CursorMove],
    *,
    tenant: str | None,
) -> Mapping[Partition, Offset]:
    """Do what `Log.ack` does in each of these partitions, in all of them or, if it raises, in none.

    A consumer's cursors are one value: stored one by one, they would be read and written as
    often as there are partitions.
    """
    # What a gap passes over is durable first: its offsets must stay its own.
    ends = {
        number: move.end if move.gaps is None else max(move.end, move.gaps.end)
        for number, move in moves.items()
    }
    found, whose, name, numbers = log._access.starting(topic, consumer, tenant, ends)  # noqa: SLF001 - A part of the log.
    log._counts.acks += len(moves)  # noqa: SLF001
    return log._cursors.ack(found, whose, name, {number: moves[number] for number in numbers})  # noqa: SLF001
