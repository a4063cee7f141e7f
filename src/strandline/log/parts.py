"""What a log was put together from: for the rooms above it, and not for its users."""

from typing import TYPE_CHECKING, Any, NamedTuple

from strandline.clock import Clock
from strandline.log.broker import Broker
from strandline.log.store import Store, StoreTier

if TYPE_CHECKING:
    from strandline.log.log import Log


class LogParts(NamedTuple):
    """The parts of one log."""

    store: Store[Any]
    """Where its bytes lie; with a tier, the store over the store."""
    tier: StoreTier | None
    broker: Broker | None
    clock: Clock


def parts_of(log: "Log") -> LogParts:
    """Return the parts of a log."""
    return log._parts  # noqa: SLF001 - The one way to them, which no user meets by chance.
