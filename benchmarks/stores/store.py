"""What every store can do."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from benchmarks.events import Payload, Sample
from strandline.values import Durability


class Publisher(Protocol):
    """Takes events, one after the other; each call returns once its level is reached."""

    def append(self, sample: Sample) -> None:
        """Append one event."""

    def close(self) -> None:
        """Close it; the files remain."""


class Store(Publisher, Protocol):
    """A publisher for any thread, which also takes many events at once."""

    def encoded(self, samples: Sequence[Sample]) -> list[Any]:
        """Return the events in the form that this store takes, so that appends do not encode."""

    def append_encoded(self, events: list[Any]) -> None:
        """Append all events or none of them."""


class Replayed(Store, Protocol):
    """A store that is read from the first event to the last."""

    def scan(self) -> int:
        """Read every event in the form that the store returns, and return their number."""

    def payloads(self) -> Iterator[Payload]:
        """Yield the decoded payload of every event; each event has been made an object."""


class AsyncStore(Protocol):
    """A store for the tasks of one event loop."""

    async def append(self, sample: Sample) -> None:
        """Append one event."""

    def close(self) -> None:
        """Close it; the files remain."""


def exhausted(events: Iterator[object]) -> int:
    """Exhaust `events` at the least cost that Python has for it; return how many there were."""
    numbers = count()
    deque(zip(events, numbers, strict=False), maxlen=0)
    return next(numbers)


PublisherOpening = Callable[[Path, Durability], Publisher]
"""Opens what is at a path, or makes it."""

Opening = Callable[[Path, Durability], Store]
ReplayOpening = Callable[[Path, Durability], Replayed]
AsyncOpening = Callable[[Path, Durability], AsyncStore]
