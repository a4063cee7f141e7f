"""How long a store waits for a server, given the time limit of the call above it.

The port's reads take no time limit: with a healthy server they do not wait. Stores find the
limit of the call above them here, so that an unreachable server does not outlast it for long.
"""

from contextvars import ContextVar, Token
from typing import Final

from strandline.clock import Clock

#: A healthy server gets this long even for a call with no time left.
GRACE_S: Final = 1.0

_deadline: ContextVar[float | None] = ContextVar("strandline_deadline", default=None)


def begin_limit(deadline: float | None) -> "Token[float | None]":
    """Set the deadline for stores' waits, in the calls of this thread or task."""
    return _deadline.set(deadline)


def end_limit(token: "Token[float | None]") -> None:
    """Restore the previous deadline."""
    _deadline.reset(token)


def patience_s(clock: Clock, usual_s: float) -> float:
    """Return how long to wait for a server: as usual, or the rest of the call's time."""
    deadline = _deadline.get()
    if deadline is None:
        return usual_s
    return min(usual_s, max(deadline - clock.monotonic(), GRACE_S))
