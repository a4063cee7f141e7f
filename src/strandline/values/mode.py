"""What a log was opened for."""

from enum import StrEnum
from typing import Literal, TypeAlias

from strandline.values.arguments import check_choice

ModeName: TypeAlias = Literal["read", "consume", "write"]
"""A mode by its name."""


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
        return check_choice("mode", value, cls)
