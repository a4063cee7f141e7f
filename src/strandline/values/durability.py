"""How safe a write is."""

from enum import IntEnum

from strandline.values.errors import InvalidError


class Durability(IntEnum):
    """What a write survives. Each level includes the ones below it.

    Invariant: applied <= written <= durable, in time as in order.
    """

    APPLIED = 1
    """In the writer's memory: survives nothing, but the writer itself sees it."""

    WRITTEN = 2
    """With the operating system: survives a crash of the process."""

    DURABLE = 3
    """Synced to storage: survives power loss."""

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, value: object) -> "Durability":
        """Return the level that `value` is or names (`applied`, `written`, `durable`).

        Raises InvalidError for anything else; nothing is trimmed or folded.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            name = str.__str__(value)
            for level in cls:
                if name == str(level):
                    return level
        raise InvalidError("a durability is applied, written or durable", value=value)
