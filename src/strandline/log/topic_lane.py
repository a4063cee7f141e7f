"""A topic as appends need it: where its values go, and what counts them."""

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
"""How often an appending process looks whether partitions were added."""

_IDENTITY_AGE_US = IDENTITY_AGE_S * 1_000_000


class TopicLane:
    """A topic as appends need it."""

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
        #: What the caller names it by.
        self.name: Final = name
        self.stored: StoredTopic = stored
        self.counts: Final = counts
        self.tenant: Final = stored.topic.tenant
        self.kind: Final = stored.settings.value_kind
        #: The count by which values are routed; the topic may have more partitions already.
        self.partitions: int = 0
        #: The counts by which writes were routed that are still recognised, the latest first.
        self.earlier: tuple[int, ...] = ()
        #: What appends in place of Python, by partition; None where there is nothing.
        self.appenders: list[Appender | EventAppender | None] = []
        #: Until when this is known without a look at the topic, by the monotonic clock.
        self.fresh_until: float
        self.route(stored, clock)
        #: Whose turn it is among the partitions, where nothing else decides.
        self.turns: Final = itertools.count()
        #: What appends plain events to each partition, once a first append has found it.
        self.shortcuts: dict[int, Shortcut] = {}

    def route(self, stored: StoredTopic, clock: Clock) -> None:
        """Route by the count that holds now, until the next look at the topic is due."""
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
        """Let the appenders append until the next look, if values are routed as before."""
        is_same = len(self.appenders) == self.partitions
        for appender in self.appenders:
            if appender is not None:
                appender.fresh_until = self.fresh_until if is_same else 0.0
        if not is_same:
            self.appenders = [None] * self.partitions

    def allow_appender(self, made: "Appender | EventAppender") -> None:
        """Let one that is new append until the next look, too."""
        is_same = len(self.appenders) == self.partitions
        made.fresh_until = self.fresh_until if is_same else 0.0

    def turn(self) -> int:
        """Return the next turn."""
        return next(self.turns)
