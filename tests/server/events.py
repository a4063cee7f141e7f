"""Events of a stream, as a client sees them."""

from collections.abc import Generator
from typing import Any, NamedTuple

import httpx2
import msgspec


class Received(NamedTuple):
    """One event."""

    event: str
    data: Any
    id: str | None


def events_of(answer: httpx2.Response) -> Generator[Received, None, None]:
    """Yield the events of an open SSE stream, pings left out."""
    event, data, last_id = "message", "", None
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            data += value
        elif name == "id":
            last_id = value
        elif not line and data:
            if event != "ping":
                yield Received(event, msgspec.json.decode(data), last_id)
            event, data = "message", ""
