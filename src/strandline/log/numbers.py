"""Checks of the numbers that callers pass to a log."""

import math

from strandline.values import InvalidError

_INT64_MAX = 2**63 - 1


def check_whole(name: str, value: object) -> int:
    """Return `value` if it is a whole number from 0 that 64 bits hold, else raise InvalidError."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT64_MAX:
        return value
    raise InvalidError(f"{name} is a whole number from 0", **{name: value})


def check_limit(name: str, value: object) -> int | None:
    """Return a limit, or None for none. Raises InvalidError for anything else."""
    return None if value is None else check_whole(name, value)


def check_timeout(timeout_s: object) -> None:
    """Raise InvalidError unless this is a time to wait, or None for ever."""
    if timeout_s is None:
        return
    if isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool) and timeout_s >= 0:
        return
    raise InvalidError("timeout_s is a number of seconds from 0, or None", timeout_s=timeout_s)


def check_lock_timeout(lock_timeout_s: float) -> float:
    """Return the time to wait for a lock, or raise InvalidError."""
    if not 0 < lock_timeout_s < math.inf:
        raise InvalidError(
            "lock_timeout_s is a number of seconds above 0", lock_timeout_s=lock_timeout_s
        )
    return lock_timeout_s


def check_timestamp(timestamp_us: object) -> int:
    """Return a time in microseconds since the epoch, or raise InvalidError."""
    if isinstance(timestamp_us, int) and not isinstance(timestamp_us, bool):
        return timestamp_us
    raise InvalidError("a timestamp is in whole microseconds", timestamp_us=timestamp_us)
