"""Decides which record may begin: records that share a lane run one at a time, in order."""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

EntrantT = TypeVar("EntrantT", bound=Hashable)


class KeyLanes(Generic[EntrantT]):
    """Queues without I/O. An entrant may begin once it is the first in all its lanes.

    An entrant enters all its lanes at once, so no two can wait for each other.
    """

    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[EntrantT]] = {}
        self._of: dict[EntrantT, tuple[Hashable, ...]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def enter(self, entrant: EntrantT, lanes: Iterable[Hashable]) -> bool:
        """Return whether it may begin at once; if not, a later `leave` returns it."""
        taken = self._of[entrant] = tuple(dict.fromkeys(lanes))
        for lane in taken:
            self._lanes.setdefault(lane, deque()).append(entrant)
        return self._is_first(entrant)

    def leave(self, entrant: EntrantT) -> list[EntrantT]:
        """Remove an entrant from its lanes, and return those that may begin now."""
        freed: dict[EntrantT, None] = {}
        for lane in self._of.pop(entrant, ()):
            queue = self._lanes[lane]
            assert queue[0] == entrant
            queue.popleft()
            if queue:
                freed[queue[0]] = None
            else:
                del self._lanes[lane]
        return [next_one for next_one in freed if self._is_first(next_one)]

    def _is_first(self, entrant: EntrantT) -> bool:
        return all(self._lanes[lane][0] == entrant for lane in self._of[entrant])
