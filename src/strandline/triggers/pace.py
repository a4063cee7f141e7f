"""How many records are taken before their turn: as many as end in a moment."""

from typing import Final

from strandline.clock import Clock

AHEAD_MAX: Final = 256
"""How many records are taken ahead at most."""

AHEAD_BYTES: Final = 1 << 20
"""How large they may be together, apart from the first."""

AHEAD_S: Final = 0.05
"""In which time they should end."""


class Pace:
    """Pure but for the clock. At first, and while functions are slow, a record at a time.

    What is taken ahead lies in memory, would be a suspect after a crash, and is finished before
    its partition goes to another process: all of that is little if it ends soon.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended = 0
        self._since = clock.monotonic()
        self.ahead: int = 1

    def note_taken(self, ended: int) -> None:
        """A list was taken; `ended` calls have ended so far."""
        now = self._clock.monotonic()
        passed_s, count = now - self._since, ended - self._ended
        self._since, self._ended = now, ended
        # Twice as many at most: one moment is no measure of the next.
        limit = min(2 * self.ahead, AHEAD_MAX)
        if passed_s > 0:
            self.ahead = min(limit, max(1, int(count * AHEAD_S / passed_s)))
        elif count:
            self.ahead = limit
