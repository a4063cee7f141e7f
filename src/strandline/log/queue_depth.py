"""How many records a subscription holds in memory by default."""

import os
from typing import Final

from strandline.values import InvalidError

READ_AHEAD: Final = 128
"""The number used if none is configured."""

QUEUE_DEPTH_VARIABLE: Final = "STRANDLINE_QUEUE_DEPTH"
"""The environment variable that changes it for a whole process."""

_DIGITS_MAX = 9


def default_queue_depth() -> int:
    """Return the environment's number, or READ_AHEAD; InvalidError for a bad value."""
    text = os.environ.get(QUEUE_DEPTH_VARIABLE)
    if text is None:
        return READ_AHEAD
    # A longer number is a mistake, and Python is slow to parse a very long one.
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) >= 1:
        return int(text)
    raise InvalidError(
        f"{QUEUE_DEPTH_VARIABLE} is a whole number from 1, or unset for {READ_AHEAD}",
        value=text,
    )
