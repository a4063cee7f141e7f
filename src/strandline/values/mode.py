"""What a log was opened for."""

from enum import StrEnum

from strandline.values.errors import InvalidError


class Mode(StrEnum):
    """What the holder of a log may do. Each mode includes the ones below it."""

    READ = "read"
    """Changes no byte."""

    CONSUME = "consume"
    """Also moves consumers' cursors, counts deliveries and dead-letters records.

    For the latter two it creates, appends to and trims internal topics, and no others.
    """

    WRITE = "write"
    """Also creates, appends, trims and drops."""

    @classmethod
    def parse(cls, value: object) -> "Mode":
        """Return the mode that `value` is or names. Raises InvalidError for anything else."""
        if isinstance(value, str):
            name = str.__str__(value)
            for mode in cls:
                if name == mode.value:
                    return mode
        raise InvalidError("a mode is write, consume or read", mode=value)
