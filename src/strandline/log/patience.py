"""How long a store waits for a server on behalf of a call that has a time limit of its own.

The port's reads take no time limit: on a healthy server they do not wait. The limit of the
call above them is known here, so that a server that is gone does not outlast it for long.
"""

from contextvars import ContextVar, Token
from typing import Final

from strandline.clock import Clock

#: A healthy server gets this long also for a call that does not wait at all.
GRACE_S: Final = 1.0

_deadline: ContextVar[float | None] = ContextVar("strandline_deadline", default=None)


def begin_limit(deadline: float | None) -> "Token[float | None]":
    """Have stores wait no longer than this, in the calls of this thread or task."""
    return _deadline.set(deadline)


def end_limit(token: "Token[float | None]") -> None:
    """Go back to what was before."""
    _deadline.reset(token)


def patience_s(clock: Clock, usual_s: float) -> float:
    """Return how long to wait for a server: as usual, or what is left of the call's time."""
    deadline = _deadline.get()
    if deadline is None:
        return usual_s
    return min(usual_s, max(deadline - clock.monotonic(), GRACE_S))
