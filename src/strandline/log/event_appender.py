"""The fast append path of a store whose shortcut is in Python: from the event to the receipt."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from strandline._core import IS_COMPILED
from strandline.clock import Clock
from strandline.log.receipts import Receipt, finish, handed_back
from strandline.values import Durability, Event, Partition, UnavailableError

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import size_of
else:
    size_of = None

_DURABLE: Final = Durability.DURABLE


class EventAppender:
    """Appends single events, as an Appender of the core does, by a shortcut's `append_event`.

    Returns NotImplemented, with nothing done, for whatever the shortcut cannot append.
    """

    #: Unlike a core appender, it holds no lane that another writer could take over.
    is_closed: Final = False

    __slots__ = (
        "_append",
        "_bytes",
        "_bytes_max",
        "_count",
        "_levels",
        "_monotonic",
        "_partition",
        "fresh_until",
    )

    def __init__(
        self,
        append: Callable[[Event, int], Any],
        clock: Clock,
        partition: int,
        levels: tuple[Durability, Durability],
        bytes_max: int,
    ) -> None:
        self._append = append
        self._monotonic = clock.monotonic
        self._partition = Partition(partition)
        #: The level of each append, and the highest level of the store.
        self._levels = levels
        self._bytes_max = bytes_max
        self._count = self._bytes = 0
        #: From this time on, the topic is looked up before the next append.
        self.fresh_until: float = 0.0

    def __call__(self, event: Event, terms: Mapping[str, Any], may_wait: bool) -> Any:
        """Append an event and return its receipt. See `append_warm`."""
        least, most = self._levels
        level = self._level(terms) if terms else least
        if (
            level is None
            or (level is _DURABLE and not may_wait)
            or self._monotonic() >= self.fresh_until
        ):
            return NotImplemented
        try:
            outcome = self._append(event, self._bytes_max)
            if outcome is NotImplemented:
                return NotImplemented
            self._count += 1
            self._bytes += size_of(event)
            if level is _DURABLE:
                finish(outcome.wait, level)
        except UnavailableError as error:
            raise handed_back(error, event) from error.__cause__
        return Receipt(outcome, self._partition, level, most, event)

    def _level(self, terms: Mapping[str, Any]) -> Durability | None:
        """Return the requested level; None if the terms hold anything else."""
        least, most = self._levels
        given = terms.get("durability") if len(terms) == 1 else None
        if given is least or given == str(least):
            return least
        return most if given is most or given == str(most) else None

    def append(self, events: list[Any], /) -> Any:
        """See Appender. Lists take the general path."""
        del events
        return NotImplemented

    def take_counts(self) -> tuple[int, int, int]:
        """See Appender."""
        count, size_bytes = self._count, self._bytes
        self._count = self._bytes = 0
        return count, count, size_bytes
