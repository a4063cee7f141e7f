"""Parses dates and times from text and numbers like Spark's casts, in UTC.

In Spark a text with a time and no date means today, and a text with a region name needs a
time zone database: both are refused here.
"""

import re
from decimal import Decimal
from typing import Any, Final

_TRIMMED: Final = "".join(map(chr, range(33))) + "\x7f"
_DATE: Final = re.compile(
    r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?\Z", re.DOTALL
)
_TIMESTAMP: Final = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    # A zone is allowed only after seconds.
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(.*))?)?)?)?)?\Z",
    re.DOTALL,
)
_ZONE: Final = re.compile(
    r"(?:UTC|GMT|UT)?(?:([+-])([0-9]{1,2})(?::?([0-9]{1,2}))?(?::([0-9]{2}))?)?\Z"
)
_DAY_US: Final = 86_400_000_000
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_MAX: Final = 2**31
_US_MAX: Final = 2**63
_ZONE_SECONDS_MAX: Final = 18 * 3600


def days_in(text: str) -> int | None:
    """Return the days since 1970 of a text; None if it is not a date."""
    found = _DATE.match(text.strip(_TRIMMED))
    if found is None:
        return None
    days = _days(found[1], found[2], found[3], found[4])
    return days if days is not None and -_DAYS_MAX <= days < _DAYS_MAX else None


def microseconds_in(text: str) -> int | None:
    """Return the microseconds since 1970 of a text; None if it is not a time."""
    found = _TIMESTAMP.match(text.strip(_TRIMMED))
    if found is None:
        return None
    days = _days(found[1], found[2], found[3], found[4])
    hour, minute, second = (int(each or 0) for each in found.groups()[4:7])
    offset = _zone_seconds(found[9])
    if days is None or offset is None or hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004
        return None
    fraction = int((found[8] or "")[:6].ljust(6, "0"))
    seconds = hour * 3600 + minute * 60 + second - offset
    us = days * _DAY_US + seconds * 1_000_000 + fraction
    return us if -_US_MAX <= us < _US_MAX else None


def microseconds_of_number(seconds: float | Decimal) -> int | None:
    """Return a number of seconds since 1970 in microseconds; None if there are too many."""
    try:
        us = int(seconds * 1_000_000)
    except OverflowError:  # A float so large that it becomes infinite.
        return None
    return us if -_US_MAX <= us < _US_MAX else None


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date in the Gregorian calendar, of any year."""
    year -= month <= 2  # noqa: PLR2004 - The year of this count begins in March.
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1  # noqa: PLR2004
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970."""
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9  # noqa: PLR2004
    return year + era * 400 + (month <= 2), month, day  # noqa: PLR2004


def month_days(year: int, month: int) -> int:
    """Return the number of days of a month."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _MONTH_DAYS[month - 1]  # noqa: PLR2004


def _days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    numbers = int(sign + year), int(month or 1), int(day or 1)
    if not 1 <= numbers[1] <= 12 or not 1 <= numbers[2] <= month_days(*numbers[:2]):  # noqa: PLR2004
        return None
    return days_from_civil(*numbers)


def _zone_seconds(text: Any) -> int | None:
    zone = (text or "").strip()
    if zone in {"", "Z"}:
        return 0
    found = _ZONE.match(zone)
    if found is None:
        return None
    if found[1] is None:
        return 0
    hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    total = hours * 3600 + minutes * 60 + seconds
    if total > _ZONE_SECONDS_MAX or minutes > 59:  # noqa: PLR2004
        return None
    return total if found[1] == "+" else -total
