"""Offsets of a stream as clients see them: opaque strings that sort in stream order."""

import re
from typing import Final

from strandline.values import InvalidError

BEGINNING: Final = "-1"
NOW: Final = "now"
_OFFSET: Final = re.compile(r"[0-9]{16}_[0-9]{16}")
_FIRST: Final = "0" * 16


def shown_offset(position: int) -> str:
    """Return the offset of a position, which is the number of messages before it."""
    return f"{_FIRST}_{position:016d}"


def position_of(offset: str) -> int:
    """Return the position of an offset; InvalidError for any other text."""
    if not _OFFSET.fullmatch(offset):
        raise InvalidError("an offset is -1, now, or one that Stream-Next-Offset had", value=offset)
    before, _, position = offset.partition("_")
    # None that was given out has anything there: such a one lies beyond every end.
    return int(position) if before == _FIRST else int(before + position)
