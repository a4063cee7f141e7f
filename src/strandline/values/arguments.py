"""Checks of plain arguments: numbers, flags, timeouts, collections, options.

Each function returns the value as an instance of the exact type, because a subclass could
compare or print differently later. Each raises InvalidError that names the argument.
"""

import difflib
import math
import os
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import TypeVar

from strandline.values.errors import InvalidError

INT64_MAX = 2**63 - 1
SECONDS_MAX = 10.0**9
"""More than thirty years, and not longer than Python can wait."""
_NEAR_MAX = 3

ItemT = TypeVar("ItemT")
ChoiceT = TypeVar("ChoiceT", bound=Enum)


def check_whole(name: str, value: object, least: int = 0) -> int:
    """Return a whole number from `least` that 64 bits hold."""
    number = whole(value)
    if number is not None and least <= number <= INT64_MAX:
        return number
    raise InvalidError(f"{name} is a whole number from {least}", **{name: value})


def check_limit(name: str, value: object, least: int = 0) -> int | None:
    """Return a limit, or None for no limit."""
    return None if value is None else check_whole(name, value, least)


def whole(value: object) -> int | None:
    """Return a plain int; None for anything that is not a whole number, and for True and False."""
    if type(value) is int:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__add__(value, 0)
    return None


def check_flag(name: str, value: object) -> bool:
    """Return True or False."""
    if value is True or value is False:
        return value
    raise InvalidError(f"{name} is True or False", **{name: value})


@cache
def _named(choices: type[ChoiceT]) -> dict[str, ChoiceT]:
    return {member.name.lower(): member for member in choices}


def check_choice(name: str, value: object, choices: type[ChoiceT], *besides: str) -> ChoiceT:
    """Return a member of an enumeration, also by its name in lower case.

    Names must match exactly. `besides` lists other values that the caller accepts.
    """
    if isinstance(value, choices):
        return value
    if isinstance(value, str):
        found: ChoiceT | None = _named(choices).get(str.__str__(value))
        if found is not None:
            return found
    *others, last = *(repr(member.name.lower()) for member in choices), *besides
    raise InvalidError(f"{name} is {', '.join(others)} or {last}", **{name: value})


def check_seconds(name: str, value: object, *, allows_zero: bool = True) -> float:
    """Return a finite number of seconds, from 0 or above 0."""
    seconds = number_of(value)
    if seconds is not None and (0 < seconds < math.inf or (seconds == 0 and allows_zero)):
        return min(seconds, SECONDS_MAX)
    least = "from 0" if allows_zero else "above 0"
    raise InvalidError(f"{name} is a number of seconds {least}", **{name: value})


def check_timeout(timeout_s: object, name: str = "timeout_s") -> float | None:
    """Return a timeout, or None for no limit."""
    if timeout_s is None:
        return None
    seconds = number_of(timeout_s)
    if seconds is not None and seconds >= 0:
        return min(seconds, SECONDS_MAX)
    raise InvalidError(f"{name} is a number of seconds from 0, or None", **{name: timeout_s})


def number_of(value: object) -> float | None:
    """Return a plain float within the range of 64 bits; None for anything else."""
    if type(value) is float:
        return value
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    number = whole(value)
    if number is None:
        return None
    return float(max(min(number, INT64_MAX), -INT64_MAX))


def check_path(name: str, value: object) -> str:
    """Return a path of the file system."""
    if isinstance(value, str | os.PathLike):
        try:
            path = os.fspath(value)
            text = str.__str__(path) if isinstance(path, str) else "\0"
            if "\0" not in text and os.fsencode(text):
                return text
        except ValueError:
            pass  # A surrogate, which no file name has.
    raise InvalidError(f"{name} is the path of a file or directory", **{name: value})


def check_text(name: str, value: object) -> str:
    """Return a text."""
    if isinstance(value, str):
        return str.__str__(value)
    raise InvalidError(f"{name} is a text", **{name: value})


def check_instance(name: str, value: object, kind: type[ItemT]) -> ItemT:
    """Return a value of this class."""
    if isinstance(value, kind):
        return value
    room = kind.__module__.partition(".")[0]
    shown = f"{room}.{kind.__name__}" if room == "pyarrow" else kind.__name__
    raise InvalidError(f"{name} is a {shown}", type=type(value).__name__)


def check_items(name: str, value: Iterable[ItemT]) -> list[ItemT]:
    """Return the items of a collection; text, bytes and mappings are refused.

    Exceptions of the caller's own iterator are not translated.
    """
    if not isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        try:
            items = iter(value)
        except TypeError:
            pass
        else:
            return list(items)
    raise InvalidError(f"{name} is a list, or anything that can be iterated", **{name: value})


def check_lock_timeout(lock_timeout_s: float) -> float:
    """Return the timeout for a lock, or raise InvalidError."""
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


def check_options(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidError for the first option that `call` does not have, with similar names."""
    for name in given:
        if name not in known:
            raise InvalidError(
                f"{call} has no option of this name",
                option=name,
                near=difflib.get_close_matches(name, known, _NEAR_MAX),
                options=sorted(known),
            )
