"""How long a store waits for a server, given the time limit of the call above it.

The port's reads take no time limit: with a healthy server they do not wait. Stores find the
limit of the call above them here, so that an unreachable server does not outlast it for long.
"""

from contextvars import ContextVar, Token
from typing import Final

from strandline.clock import Clock

#: A healthy server gets this long even for a call with no time left.
GRACE_S: Final = 1.0


class _Limit:
    __slots__ = ("deadline", "grace_s")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.grace_s = GRACE_S


_limit: ContextVar[_Limit | None] = ContextVar("strandline_limit", default=None)


def begin_limit(deadline: float | None) -> "Token[_Limit | None]":
    """Set the deadline for stores' waits, in the calls of this thread or task."""
    return _limit.set(None if deadline is None else _Limit(deadline))


def end_limit(token: "Token[_Limit | None]") -> None:
    """Restore the previous deadline."""
    _limit.reset(token)


def note_unavailable() -> None:
    """Halve the grace of the call, so that a hundred partitions do not wait a hundred times."""
    if (limit := _limit.get()) is not None:
        limit.grace_s /= 2


def patience_s(clock: Clock, usual_s: float) -> float:
    """Return how long to wait for a server: as usual, or the rest of the call's time."""
    if (limit := _limit.get()) is None:
        return usual_s
    return min(usual_s, max(limit.deadline - clock.monotonic(), limit.grace_s))


def answer_s(clock: Clock, usual_s: float) -> float:
    """Return how long to wait for the answer to a request that a server has accepted.

    As usual, because it may be at work; as `patience_s` once it was unavailable in this call.
    """
    limit = _limit.get()
    is_usual = limit is None or limit.grace_s == GRACE_S
    return usual_s if is_usual else patience_s(clock, usual_s)
