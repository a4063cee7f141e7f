"""Until when a step waits."""

from strandline.clock import Clock
from strandline.values.arguments import check_timeout


def deadline_in(clock: Clock, timeout_s: float | None) -> float | None:
    """Return the end of a wait that begins now; None if it has none."""
    checked_s = check_timeout(timeout_s)
    return None if checked_s is None else clock.monotonic() + checked_s


def is_over(clock: Clock, deadline: float | None) -> bool:
    """Whether a deadline has passed."""
    return deadline is not None and clock.monotonic() >= deadline
