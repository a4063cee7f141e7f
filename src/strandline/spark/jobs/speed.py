"""How long a job has taken, and how fast that was."""

from strandline.clock import Clock, SystemClock


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._begun = self._clock.monotonic()

    def seconds(self) -> float:
        """Return how long it has run."""
        return self._clock.monotonic() - self._begun


def per_second(count: int, seconds: float) -> float:
    """Return a speed; 0 where nothing took any time."""
    return count / seconds if seconds > 0 else 0.0
