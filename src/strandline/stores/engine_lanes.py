"""The lanes of a log on an engine, one per partition, each made when first needed."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from strandline.log.open_state import closed_log
from strandline.stores.closing import close_each
from strandline.stores.engine_topic import EngineTopic
from strandline.values import Topic


class ClosingLane(Protocol):
    """The write path of one partition."""

    @property
    def close(self) -> Callable[[], None]:
        """Finish accepted appends, and take no more."""


LaneT = TypeVar("LaneT", bound=ClosingLane)


class EngineLanes(Generic[LaneT]):
    """The lanes of one open log. Thread-safe."""

    def __init__(self, make: Callable[[EngineTopic, int], LaneT]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._lanes: dict[tuple[UUID, int], LaneT] = {}
        self._is_closed = False

    def lane(self, topic: EngineTopic, partition: int) -> LaneT:
        """Return the lane of a partition."""
        place = topic.topic.id, partition
        return self._lanes.get(place) or self._added(place, self._make(topic, partition))

    def _added(self, place: tuple[UUID, int], lane: LaneT) -> LaneT:
        with self._lock:
            if self._is_closed:
                raise closed_log()
            # Another thread may have been first.
            return self._lanes.setdefault(place, lane)

    def known(self, topic: Topic, partition: int) -> LaneT | None:
        """Return the lane of a partition if it exists already."""
        return self._lanes.get((topic.id, partition))

    def close_topic(self, topic: EngineTopic) -> None:
        """Finish a topic's accepted appends."""
        with self._lock:
            places = [place for place in self._lanes if place[0] == topic.topic.id]
            gone = [self._lanes.pop(place) for place in places]
        close_each(lane.close for lane in gone)

    def closings(self) -> Sequence[Callable[[], None]]:
        """Make no more lanes, and return a function to close each."""
        with self._lock:
            self._is_closed = True
            # Not removed: a second close must wait for them, too, before it closes the connection.
            return [lane.close for lane in self._lanes.values()]
