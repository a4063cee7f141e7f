"""What every store can do."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.events import Payload, Sample
from strandline.values import Durability


class Store(Protocol):
    """Takes events, from any thread; each call returns once its level is reached."""

    def append(self, sample: Sample) -> None:
        """Append one event."""

    def append_many(self, samples: Sequence[Sample]) -> None:
        """Append all events or none of them."""

    def close(self) -> None:
        """End it; the files stay."""


class Replayed(Store, Protocol):
    """A store that is read from the first event to the last."""

    def scan(self) -> int:
        """Go through every event in the form in which the store hands it out; count them."""

    def payloads(self) -> Iterator[Payload]:
        """Yield the decoded payload of every event, each event having been made an object."""


class AsyncStore(Protocol):
    """A store for the tasks of one event loop."""

    async def append(self, sample: Sample) -> None:
        """Append one event."""

    def close(self) -> None:
        """End it; the files stay."""


Opening = Callable[[Path, Durability], Store]
"""Opens the store at a path, or a new one."""

ReplayOpening = Callable[[Path, Durability], Replayed]
"""Likewise; a store that there is already is only read."""

AsyncOpening = Callable[[Path, Durability], AsyncStore]
