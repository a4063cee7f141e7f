"""The header with the time of delivery to groups and work queues. See design 0110."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from strandline.values.errors import InvalidError
from strandline.values.instants import datetime_from_us, us_from_datetime

if TYPE_CHECKING:
    from strandline.values.record import Record

DELIVER_AT: Final = "strandline.deliver_at"
"""The header, with a time in UTC as `2026-12-24T18:00:00.000000Z`."""

_IN_JSON: Final = DELIVER_AT.encode()
_FORM: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def delivery_time(moment: object) -> str:
    """Return a time in the header's format; InvalidError unless it is an aware datetime."""
    try:
        at = datetime_from_us(us_from_datetime(moment))
    except InvalidError as error:
        raise InvalidError(
            "deliver_at is a datetime with a time zone, from year 1 to 9999 of UTC,"
            " write datetime.now(UTC) + timedelta(hours=1)",
            deliver_at=moment,
        ) from error
    return f"{at.year:04}{at.strftime(_FORM[2:])}"


def check_delivery_time(text: str) -> str:
    """Return the text of the header; InvalidError unless it comes from `delivery_time`."""
    if _parsed(text) is None:
        raise InvalidError(
            f"the header {DELIVER_AT} is the log's own, pass deliver_at to append",
            value=text,
        )
    return text


def deliver_at_us(record: "Record") -> int | None:
    """Return when groups and queues may deliver the record; None for at once."""
    headers_json = getattr(record.value, "headers_json", b"")
    if _IN_JSON not in headers_json:
        return None
    # A header in another format does not delay the record.
    return _parsed(record.value.headers.get(DELIVER_AT, ""))  # type: ignore[union-attr] # An event.


def _parsed(text: str) -> int | None:
    try:
        at = datetime.strptime(text, _FORM).replace(tzinfo=UTC)
    except ValueError:
        return None
    us = us_from_datetime(at)
    return us if delivery_time(at) == text else None
