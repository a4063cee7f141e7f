"""How many records a subscription holds in memory by default."""

import os
from typing import Final

from strandline.values import InvalidError

READ_AHEAD: Final = 128
"""The number where none is given."""

QUEUE_DEPTH_VARIABLE: Final = "STRANDLINE_QUEUE_DEPTH"
"""The variable that says otherwise for a whole process."""

_DIGITS_MAX = 9


def default_queue_depth() -> int:
    """Return what the environment says, or READ_AHEAD; InvalidError for a bad value."""
    text = os.environ.get(QUEUE_DEPTH_VARIABLE)
    if text is None:
        return READ_AHEAD
    # Any longer number is a mistake, and Python takes its time to read a very long one.
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) >= 1:
        return int(text)
    raise InvalidError(
        f"{QUEUE_DEPTH_VARIABLE} is a whole number from 1, or unset for {READ_AHEAD}", value=text
    )
