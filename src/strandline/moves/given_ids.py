"""A clock that returns the ids of the copied log."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from uuid import UUID

from strandline.clock import SystemClock, Timer
from strandline.locks import Signal


class GivenIds:
    """Implements Clock: in a block it returns given ids and times, otherwise the system's."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        #: For each thread: other threads get the system's ids and times.
        self._given = threading.local()

    @contextlib.contextmanager
    def next_id(self, given: UUID, now_us: int | None = None) -> Iterator[None]:
        """Make this the first new id of the block."""
        self._given.id, self._given.now_us = given, now_us
        try:
            yield
        finally:
            self._given.id = self._given.now_us = None

    def new_id(self) -> UUID:
        given: UUID | None = getattr(self._given, "id", None)
        if given is None:
            return self._clock.new_id()
        self._given.id = None
        return given

    def now_us(self) -> int:
        given: int | None = getattr(self._given, "now_us", None)
        return self._clock.now_us() if given is None else given

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay_s, action)

    def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
        return self._clock.wait(event, timeout_s)

    def random_bytes(self, count: int) -> bytes:
        return self._clock.random_bytes(count)
