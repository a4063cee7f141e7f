"""Events with a delivery time for groups and work queues. See design 0110."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from strandline.log.results import Value
from strandline.values import Event, InvalidError
from strandline.values.delivery_time import DELIVER_AT, delivery_time


def scheduled(value: Value, deliver_at: datetime) -> Value:
    """Return the event with its time of delivery; InvalidError if it is not an event."""
    return _scheduled(value, delivery_time(deliver_at))


def scheduled_each(values: Sequence[Value], deliver_at: datetime) -> list[Value]:
    """Return each event with this time of delivery."""
    text = delivery_time(deliver_at)
    return [_scheduled(value, text) for value in values]


def _scheduled(value: Value, text: str) -> Value:
    if not isinstance(value, Event):
        raise InvalidError(
            "deliver_at is stored in an event's headers, which bytes and batches do not have:"
            " append an Event",
            type=type(value).__name__,
        )
    known = value.headers.get(DELIVER_AT)
    if known is not None and known != text:
        raise InvalidError(
            "the event has another delivery time, give one of the two",
            deliver_at=text,
            event_deliver_at=known,
        )
    return with_headers(value, {DELIVER_AT: text})


def with_headers(event: Event, added: Mapping[str, str]) -> Event:
    """Return the event with these headers besides its own."""
    kind, payload, key, _, occurred_at_us = event.parts()
    headers = Event(kind, headers={**event.headers, **added}).headers_json
    return Event.load(kind, payload, key, headers, occurred_at_us)
