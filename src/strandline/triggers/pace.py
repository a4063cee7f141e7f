"""How many records are taken in advance: as many as end within AHEAD_S."""

from typing import Final

from strandline.clock import Clock

AHEAD_MAX: Final = 256
"""The maximum number of records that are taken in advance."""

AHEAD_BYTES: Final = 1 << 20
"""The maximum of their total size, not counting the first."""

AHEAD_S: Final = 0.05
"""The time in which they should end."""


class Pace:
    """Needs only a clock. At first, and while functions are slow, one record at a time.

    Records taken in advance use memory, are suspects after a crash, and have to end before
    their partition can move to another process. The limit of AHEAD_S keeps each of these small.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended = 0
        self._since = clock.monotonic()
        self.ahead: int = 1

    def note_taken(self, ended: int) -> None:
        """Adjust `ahead` after a list was taken; `ended` calls have ended so far."""
        now = self._clock.monotonic()
        passed_s, count = now - self._since, ended - self._ended
        self._since, self._ended = now, ended
        # At most doubled: the rate of one short interval may be an exception.
        limit = min(2 * self.ahead, AHEAD_MAX)
        if passed_s > 0:
            self.ahead = min(limit, max(1, int(count * AHEAD_S / passed_s)))
        elif count:
            self.ahead = limit
