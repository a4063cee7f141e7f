"""The start of a read: an offset, a time, the last n records, or an end."""

import re
from datetime import UTC, datetime
from typing import Final

from strandline.log import Log
from strandline.values import InvalidError, Topic
from strandline.values.arguments import INT64_MAX

EARLIEST, LATEST = "earliest", "latest"
_OFFSET: Final = re.compile(r"-?\d{1,19}")


def offset_of(log: Log, topic: Topic, partition: int, place: str) -> int:
    """Return the current offset of a place: `earliest`, `latest`, 12, -3 or a time.

    -3 stands for the last three records.
    """
    marks = log.marks(topic, partition)
    if place == EARLIEST:
        return marks.low
    if place == LATEST:
        return marks.high
    if _OFFSET.fullmatch(place):
        number = int(place)
        if number > INT64_MAX:
            raise _no_place(place)
        return number if not place.startswith("-") else max(marks.low, marks.high + number)
    return log.offset_at(topic, partition, _time_us(place))


def _time_us(place: str) -> int:
    try:
        found = datetime.fromisoformat(place)
    except ValueError:
        raise _no_place(place) from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    try:
        return max(0, int(found.timestamp() * 1_000_000))
    except OverflowError:
        raise _no_place(place) from None


def _no_place(place: str) -> InvalidError:
    return InvalidError(
        "a start is earliest, latest, an offset, -n for the last n, or a time in ISO 8601",
        start=place,
    )
