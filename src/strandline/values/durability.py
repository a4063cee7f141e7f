"""How safe a write is."""

from enum import IntEnum
from typing import Literal, TypeAlias

from strandline.values.arguments import check_choice

DurabilityName: TypeAlias = Literal["applied", "written", "durable"]
"""The name of a level."""


class Durability(IntEnum):
    """What a write survives. Each level includes the ones below it.

    Invariant: applied <= written <= durable, in time as in order.
    """

    APPLIED = 1
    """In the writer's memory: survives nothing; only the writer itself sees it."""

    WRITTEN = 2
    """With the operating system: survives a crash of the process."""

    DURABLE = 3
    """Synced to storage: survives power loss."""

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, value: object) -> "Durability":
        """Return `value` as a level, also by its name (`applied`, `written`, `durable`).

        Raises InvalidError for anything else; names must match exactly.
        """
        return check_choice("durability", value, cls)
