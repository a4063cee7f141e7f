"""Fast append paths for plain events: which partitions have one, in Python or in the core.

See design 0086 and 0087.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from strandline._core import IS_COMPILED
from strandline.clock import Clock, SystemClock
from strandline.log.receipts import Receipt, receipts_of
from strandline.log.store import Shortcut, Store, StoredTopic
from strandline.log.topic_lane import TopicLane
from strandline.values import Durability, Partition, ValueKind

if TYPE_CHECKING:
    from strandline._core.core import Appender
    from strandline.log.event_appender import EventAppender

    #: By topic name: the appender of its only partition, or a list for all partitions.
    TopicAppenders = dict[str, Appender | EventAppender | list[Appender | EventAppender | None]]

_EVENT = ValueKind.EVENT


class Shortcuts:
    """Finds a store's fast append paths, each after a first append by the general path."""

    def __init__(
        self,
        store: Store[StoredTopic],
        clock: Clock,
        levels: tuple[Durability, Durability],
        bytes_max: int,
    ) -> None:
        self._find: Callable[[StoredTopic, int], Shortcut | None] | None = None
        if IS_COMPILED:
            self._find = getattr(store, "shortcut", None)
        self._clock = None if type(clock) is SystemClock else clock
        self._levels = levels
        self._bytes_max = bytes_max
        #: None if the store has no fast paths.
        self.appenders: TopicAppenders | None = None if self._find is None else {}

    def look(self, lane: TopicLane, number: Partition) -> None:
        """Let the next append of plain events use the fast path, if there is one."""
        if number not in lane.shortcuts:
            is_plain = lane.tenant is None and lane.kind is _EVENT
            found = self._find(lane.stored, number) if self._find and is_plain else None
            if found is None:
                return
            lane.shortcuts[number] = found
        self.have_appender(lane, number)

    def have_appender(self, lane: TopicLane, number: Partition) -> None:
        """Let the next append of events without terms run in the core, if it can."""
        name, counts, each = lane.name, lane.counts, lane.appenders
        if self.appenders is None or type(name) is not str or number >= len(each):
            return
        known = each[number]
        entry: Any = known if len(each) == 1 else each
        if known is not None and entry is self.appenders.get(name) and not known.is_closed:
            return
        counts.take_counts_of(number)
        made = lane.shortcuts[number].appender(
            *((Receipt, receipts_of), self._clock, number, self._levels, self._bytes_max)
        )
        if made is not None:
            each[number] = counts.appenders[number] = made
            lane.allow_appender(made)
            self.appenders[name] = made if len(each) == 1 else each
