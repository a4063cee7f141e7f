"""Quoted text: its escapes, and dates and times in it."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final

from strandline.values.instants import us_since_epoch

_ESCAPES: Final = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "n": "\n",
    "r": "\r",
    "t": "\t",
    # They keep their backslash for LIKE.
    "%": "\\%",
    "_": "\\_",
}
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:\d\d)?)?\Z",
    re.ASCII,
)
_EPOCH_DAY: Final = date(1970, 1, 1)
_ZONE_HOURS_MAX: Final = 18


def unquoted(raw: str) -> str:
    """Return the value of a quoted text; ValueError for an unsupported escape."""
    return _ESCAPE.sub(_meaning, raw[1:-1])


def days_of(text: str) -> int:
    """Return the days since 1970 of `2026-01-31`; ValueError for any other form."""
    found = _DATE.match(text)
    if found is None:
        raise ValueError("a date is written 2026-01-31")
    return (date(*map(int, found.groups())) - _EPOCH_DAY).days


def microseconds_of(text: str, *, with_zone: bool) -> int:
    """Return the microseconds since 1970 of `2026-01-31 12:00:00.5`, in UTC.

    `T` may replace the space, parts may be missing at the end, and a zone may follow if
    `with_zone`. ValueError for any other form.
    """
    found = _TIMESTAMP.match(text)
    if found is None or (found[8] and not with_zone):
        raise ValueError("a timestamp is written 2026-01-31 12:00:00.5" + "Z" * with_zone)
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    fraction = int((found[7] or "").ljust(6, "0"))
    local = datetime(year, month, day, hour, minute, second, fraction, _zone(found[8]))
    return us_since_epoch(local)


def _meaning(found: re.Match[str]) -> str:
    if found[1] not in _ESCAPES:
        raise ValueError(f"the escape {found[0]} is not part of the dialect")
    return _ESCAPES[found[1]]


def _zone(text: str | None) -> timezone:
    if text in {None, "Z"}:
        return UTC
    assert text is not None
    hours, minutes = int(text[1:3]), int(text[4:])
    if hours >= _ZONE_HOURS_MAX or minutes > 59:  # noqa: PLR2004
        raise ValueError("a zone is between -17:59 and +17:59")
    ahead = timedelta(hours=hours, minutes=minutes)
    return timezone(ahead if text[0] == "+" else -ahead)
