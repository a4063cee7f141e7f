"""The numbers that callers pass to a log."""

import math

from strandline.values import InvalidError
from strandline.values.arguments import (
    INT64_MAX,
    check_flag,
    check_limit,
    check_timeout,
    check_whole,
    whole,
)

__all__ = [
    "check_flag",
    "check_limit",
    "check_lock_timeout",
    "check_timeout",
    "check_timestamp",
    "check_whole",
]


def check_lock_timeout(lock_timeout_s: float) -> float:
    """Return the time to wait for a lock, or raise InvalidError."""
    if not 0 < lock_timeout_s < math.inf:
        raise InvalidError(
            "lock_timeout_s is a number of seconds above 0", lock_timeout_s=lock_timeout_s
        )
    return lock_timeout_s


def check_timestamp(timestamp_us: object) -> int:
    """Return a time in microseconds since the epoch, or raise InvalidError."""
    number = whole(timestamp_us)
    if number is not None and -INT64_MAX <= number <= INT64_MAX:
        return number
    raise InvalidError(
        "timestamp_us is in whole microseconds, write int(moment.timestamp() * 1_000_000)",
        timestamp_us=timestamp_us,
    )
