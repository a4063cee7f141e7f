"""Limits the number and duration of running calls, and ends them with the server."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from strandline.clock import Clock
from strandline.server.caller import Caller
from strandline.server.problems import RequestError
from strandline.server.settings import ServerSettings

T = TypeVar("T")

_LOOK_S: Final = 0.25


class FlightCalls:
    """Counts calls, acts when one takes too long, and wakes waiting ones. For any thread."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._queries: Counter[str] = Counter()
        self._limits: dict[object, tuple[float, Callable[[], None]]] = {}
        self._wakes: set[Callable[[], None]] = set()
        self._ended = threading.Event()
        self.is_draining: bool = False

    @property
    def count(self) -> int:
        """The number of running calls."""
        return self._open.total()

    @contextlib.contextmanager
    def one_of(self, caller: Caller) -> Iterator[None]:
        """Count a call within the block; RequestError if there are too many."""
        limits = self._settings
        with self._lock:
            if self.is_draining:
                raise RequestError(503, "the server is shutting down, connect again")
            if self._open[caller.id] >= limits.flight_calls_per_token_max:
                raise RequestError(429, "this token has too many calls under way")
            if self.count >= limits.flight_calls_max:
                raise RequestError(503, "the server has too many calls under way, try again")
            self._open[caller.id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[caller.id] -= 1
                if not self._open[caller.id]:
                    del self._open[caller.id]

    @contextlib.contextmanager
    def one_query(self, caller: Caller) -> Iterator[None]:
        """Count an SQL statement within the block; RequestError if there are too many.

        One token may use at most half of the statements.
        """
        most = self._settings.sql_queries_max
        with self._lock:
            if self._queries[caller.id] >= max(1, most // 2):
                raise RequestError(429, "this token runs too many SQL statements, try again")
            if self._queries.total() >= most:
                raise RequestError(503, "the server runs too many SQL statements, try again")
            self._queries[caller.id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._queries[caller.id] -= 1
                if not self._queries[caller.id]:
                    del self._queries[caller.id]

    @contextlib.contextmanager
    def within(self, seconds: float, act: Callable[[], None]) -> Iterator[None]:
        """Have `act` called, on another thread, if the block takes longer."""
        key = object()
        with self._lock:
            self._limits[key] = self._clock.monotonic() + seconds, act
        try:
            yield
        finally:
            with self._lock:
                self._limits.pop(key, None)

    @contextlib.contextmanager
    def woken_by(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have `wake` called when the server drains within the block."""
        with self._lock:
            self._wakes.add(wake)
            is_late = self.is_draining
        if is_late:
            wake()
        try:
            yield
        finally:
            with self._lock:
                self._wakes.discard(wake)

    def drain(self) -> None:
        """Refuse new calls, and wake the waiting ones."""
        with self._lock:
            self.is_draining = True
            wakes = tuple(self._wakes)
        for wake in wakes:
            wake()

    def watch(self) -> None:
        """Look for blocks that take too long, until `end`; on a separate thread."""
        while not self._clock.wait(self._ended, _LOOK_S):
            now = self._clock.monotonic()
            with self._lock:
                late = [key for key, (limit, _) in self._limits.items() if limit <= now]
                acts = [self._limits.pop(key)[1] for key in late]
            for act in acts:
                act()

    def end(self) -> None:
        """End `watch`."""
        self._ended.set()
