"""What appends cache of a topic: routing, counters, and fast paths."""

import itertools
from typing import TYPE_CHECKING, Final

from strandline.clock import Clock
from strandline.log.metrics import TopicCounts
from strandline.log.results import TopicName
from strandline.log.store import Shortcut, StoredTopic
from strandline.values import IDENTITY_AGE_S

if TYPE_CHECKING:
    from strandline._core.core import Appender
    from strandline.log.event_appender import EventAppender

ROUTE_CHECK_S: Final = 1.0
"""How often an appending process checks whether partitions were added."""

_IDENTITY_AGE_US = IDENTITY_AGE_S * 1_000_000


class TopicLane:
    """What appends cache of one topic."""

    __slots__ = (
        "appenders",
        "counts",
        "earlier",
        "fresh_until",
        "kind",
        "name",
        "partitions",
        "shortcuts",
        "stored",
        "tenant",
        "turns",
    )

    def __init__(
        self, name: TopicName, stored: StoredTopic, counts: TopicCounts, clock: Clock
    ) -> None:
        #: The name or Topic that the caller uses.
        self.name: Final = name
        self.stored: StoredTopic = stored
        self.counts: Final = counts
        self.tenant: Final = stored.topic.tenant
        self.kind: Final = stored.settings.value_kind
        #: The partition count used for routing; the topic may have more partitions already.
        self.partitions: int = 0
        #: Earlier partition counts whose writes are still recognised as repeats, latest first.
        self.earlier: tuple[int, ...] = ()
        #: The core's appenders by partition; None where there is none.
        self.appenders: list[Appender | EventAppender | None] = []
        #: Until when this may be used without looking up the topic, by the monotonic clock.
        self.fresh_until: float
        self.route(stored, clock)
        #: Round robin over the partitions, if nothing else determines one.
        self.turns: Final = itertools.count()
        #: Each partition's fast path for plain events, found after a first append.
        self.shortcuts: dict[int, Shortcut] = {}

    def route(self, stored: StoredTopic, clock: Clock) -> None:
        """Route by the current partition count, until the topic is to be looked up again."""
        settings = stored.settings
        self.stored = stored
        self.fresh_until = clock.monotonic() + ROUTE_CHECK_S
        if settings.earlier_partitions:
            self._route_by_counts(clock.now_us())
        else:
            self.partitions, self.earlier = settings.partitions, ()
        self.allow_appenders()

    def _route_by_counts(self, now_us: int) -> None:
        settings = self.stored.settings
        self.partitions = settings.routing_partitions(now_us)
        self.earlier = tuple(
            each.partitions
            for each in reversed(settings.earlier_partitions)
            if each.until_us <= now_us < each.until_us + _IDENTITY_AGE_US
        )
        changes = (each.until_us - now_us for each in settings.earlier_partitions)
        next_s = min((each / 1_000_000 for each in changes if each > 0), default=ROUTE_CHECK_S)
        self.fresh_until += min(next_s, ROUTE_CHECK_S) - ROUTE_CHECK_S

    def allow_appenders(self) -> None:
        """Let the appenders append until the next lookup, if routing is unchanged."""
        is_same = len(self.appenders) == self.partitions
        for appender in self.appenders:
            if appender is not None:
                appender.fresh_until = self.fresh_until if is_same else 0.0
        if not is_same:
            self.appenders = [None] * self.partitions

    def allow_appender(self, made: "Appender | EventAppender") -> None:
        """Let a new appender append until the next lookup, too."""
        is_same = len(self.appenders) == self.partitions
        made.fresh_until = self.fresh_until if is_same else 0.0

    def turn(self) -> int:
        """Return the next number of the round robin."""
        return next(self.turns)
