"""Microseconds since the epoch, and datetimes."""

from datetime import UTC, datetime, timedelta
from typing import Final

from strandline.values.errors import CorruptError, InvalidError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_US_MIN: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_US_MAX: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def us_since_epoch(moment: datetime) -> int:
    """Return the exact microseconds of a datetime with a time zone."""
    return (moment - _EPOCH) // _MICROSECOND


def datetime_at(us: int) -> datetime:
    """Return the datetime in UTC; OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=us)


def us_from_datetime(moment: object) -> int:
    """Return the exact microseconds of an aware datetime, or raise InvalidError."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidError("a time is a datetime with a time zone, add tzinfo", value=moment)
    us = us_since_epoch(moment)
    if not _US_MIN <= us <= _US_MAX:
        raise InvalidError("this time lies outside the years 1 to 9999 of UTC", value=moment)
    return us


def datetime_from_us(us: int) -> datetime:
    """Return the datetime in UTC, or raise CorruptError if there is none."""
    if not _US_MIN <= us <= _US_MAX:
        raise CorruptError(
            "this stored time lies outside the years 1 to 9999",
            file=None,
            position=None,
            microseconds=us,
        )
    return datetime_at(us)
