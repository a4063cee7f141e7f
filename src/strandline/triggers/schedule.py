"""The delays before a failed record is retried."""

import math
from collections.abc import Iterable
from typing import Final

from strandline.values import InvalidError
from strandline.values.arguments import check_items, check_seconds, check_whole, number_of

RETRIES_MAX: Final = 1_000
"""The maximum number of retries of a record."""


def backoff(
    first_s: float = 1.0, *, factor: float = 2.0, cap_s: float = 300.0, retries: int = 4
) -> tuple[float, ...]:
    """Return `retries` delays that grow by `factor` from `first_s` to at most `cap_s`."""
    delay_s, most_s = check_seconds("first_s", first_s), check_seconds("cap_s", cap_s)
    growth = number_of(factor)
    if growth is None or not 1 <= growth < math.inf:
        raise InvalidError("a factor is a number from 1", factor=factor)
    if check_whole("retries", retries) > RETRIES_MAX:
        raise InvalidError("too many retries", retries=retries, max=RETRIES_MAX)
    delays = []
    for _ in range(retries):
        delays.append(min(delay_s, most_s))
        delay_s = min(delay_s * growth, most_s)
    return tuple(delays)


RETRY: Final = (1.0, 2.0, 4.0, 8.0)
"""The default schedule of a trigger."""


def checked_schedule(delays: Iterable[float] | int) -> tuple[float, ...]:
    """Return the delays as a tuple; InvalidError unless each is a number of seconds from 0.

    A whole number means this many delays of `backoff`.
    """
    if isinstance(delays, int) and not isinstance(delays, bool):
        return backoff(retries=delays)
    if isinstance(delays, str | bytes) or not isinstance(delays, Iterable):
        raise InvalidError(
            "a retry schedule is a list of seconds or a number of retries, write retry=[1, 5] or"
            " retry=3",
            retry=delays,
        )
    schedule = check_items("retry", delays)
    if len(schedule) > RETRIES_MAX:
        raise InvalidError("too many retries", retries=len(schedule), max=RETRIES_MAX)
    return tuple(check_seconds("retry", delay_s) for delay_s in schedule)
