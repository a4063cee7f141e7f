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
    "check_span",
    "check_timeout",
    "check_timestamp",
    "check_whole",
]


def check_span(
    start: object,
    end: object,
    records_max: object = None,
    bytes_max: object = None,
    *,
    durable_only: object = False,
) -> tuple[int, int | None, int | None, int | None]:
    """Return from where to where to read, and how much at most; InvalidError for nonsense."""
    check_flag("durable_only", durable_only)
    return (
        check_whole("start", start),
        check_limit("end", end),
        check_limit("records_max", records_max),
        check_limit("bytes_max", bytes_max),
    )


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
    raise InvalidError("a timestamp is in whole microseconds", timestamp_us=timestamp_us)
