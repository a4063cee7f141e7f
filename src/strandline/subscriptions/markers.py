"""Markers that a subscription emits between the records, on request.

For each assignment of a partition the markers alternate, beginning with CaughtUp. Each
appears at its exact position in the partition's order.
"""

from dataclasses import dataclass
from typing import TypeAlias

from strandline.values import Offset, Partition, Topic


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything of this partition before `offset` was delivered, and there was no more.

    Emitted when the reader first reaches the end, also that of an empty partition, and again
    only after a FellBehind.
    """

    partition: Partition
    offset: Offset
    topic: Topic


@dataclass(frozen=True, slots=True)
class FellBehind:
    """A reader that had caught up is now more than `read_ahead` records behind.

    Nothing is lost: the record after `last` comes next.
    """

    partition: Partition
    last: Offset | None
    """The last offset delivered since the partition was assigned; None if there is none yet."""
    topic: Topic


Marker: TypeAlias = CaughtUp | FellBehind
