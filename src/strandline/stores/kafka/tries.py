"""How long a call keeps trying while the brokers do not answer."""

import threading
from typing import Final

from strandline.clock import SystemClock
from strandline.log.open_state import closed_log
from strandline.stores.kafka.errors import unreachable

_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5


class KafkaTries:
    """The retries of one call. They use the machine's clock, as the brokers do."""

    def __init__(self, url: str, limit_s: float, closing: threading.Event) -> None:
        self._url = url
        self._clock = SystemClock()
        self._end = self._clock.monotonic() + limit_s
        self._pause_s = _PAUSE_MIN_S
        self._closing = closing

    @property
    def left_s(self) -> float:
        """How much time is left."""
        return self._end - self._clock.monotonic()

    def rest(self, reason: object) -> None:
        """Wait before the next try; UnavailableError if the time is up."""
        left_s = self.left_s
        if left_s <= 0:
            raise unreachable(self._url, reason)
        # Jitter, so that calls that failed together do not retry together.
        jitter = 0.5 + self._clock.random_bytes(1)[0] / 255
        if self._closing.wait(min(self._pause_s * jitter, left_s)):
            raise closed_log()
        self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
