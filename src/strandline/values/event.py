"""The value in an event topic: something happened."""

from typing import TYPE_CHECKING

from strandline._core import IS_COMPILED
from strandline.values import _event_rules as rules
from strandline.values._json import encode_exact
from strandline.values.instants import datetime_from_us, us_from_datetime
from strandline.values.payloads import event_payload_as

if TYPE_CHECKING or not IS_COMPILED:
    from strandline.values._plain_event import Event
else:
    from strandline._core.core import Event, bind

    bind(
        encode_payload=encode_exact,
        encode_headers=rules.encode_headers,
        check_kind=rules.check_kind,
        check_key=rules.check_key,
        us_from_datetime=us_from_datetime,
        datetime_from_us=datetime_from_us,
        decode_payload=rules.decode_payload,
        decode_headers=rules.decode_headers,
        events_equal=rules.events_equal,
        event_text=rules.event_text,
        raise_too_large=rules.raise_too_large,
        raise_no_event=rules.raise_no_event,
        record_text=rules.record_text,
    )
    # Python handles uncommon cases.
    Event.payload_as = event_payload_as

__all__ = ["Event"]
