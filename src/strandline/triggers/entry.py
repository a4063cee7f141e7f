"""A delivery that a trigger has in hand."""

import asyncio
from dataclasses import dataclass

from strandline.triggers.handled_keys import HandledKey
from strandline.triggers.source import Source
from strandline.values import Record, StrandlineError


class TooOftenError(StrandlineError):
    """The processes that handled a record ended each time."""


@dataclass(slots=True, eq=False)
class ActiveDelivery:
    """A delivery that is in hand: it waits for its turn, runs, or rests until its retry."""

    source: Source
    carrier: Record
    """Without its value."""
    count: int
    record: Record | None
    """What the function is given; None while it waits, to be read again."""
    attempt: int = 1
    """Which attempt of its schedule it is."""
    is_suspect: bool = False
    """Whether it was in flight when a process ended, and so has to be alone."""
    settled: asyncio.Event | None = None
    """Set once it is settled."""
    key: HandledKey | None = None
    error: Exception | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """Identifies it among all that are in flight."""
        return id(self.source), self.carrier.partition, self.carrier.offset
