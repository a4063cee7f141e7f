"""The mode in which a log was opened."""

from enum import StrEnum
from typing import Literal, TypeAlias

from strandline.values.arguments import check_choice

ModeName: TypeAlias = Literal["read", "consume", "write"]
"""The name of a mode."""


class Mode(StrEnum):
    """Which calls a log allows. Each mode includes the lower ones."""

    READ = "read"
    """Changes no byte."""

    CONSUME = "consume"
    """Also moves consumers' cursors, counts deliveries and dead-letters records.

    To count and dead-letter, it creates, appends to and trims internal topics, and no others.
    """

    WRITE = "write"
    """Also creates, appends, trims and drops."""

    @classmethod
    def parse(cls, value: object) -> "Mode":
        """Return the mode that `value` is or names. Raises InvalidError for anything else."""
        return check_choice("mode", value, cls)
