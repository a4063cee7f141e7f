"""Headers that the log adds to an event."""

from collections.abc import Mapping

from strandline.values import Event


def with_headers(event: Event, added: Mapping[str, str]) -> Event:
    """Return the event with these headers besides its own."""
    kind, payload, key, _, occurred_at_us = event.parts()
    headers = Event(kind, headers={**event.headers, **added}).headers_json
    return Event.load(kind, payload, key, headers, occurred_at_us)
