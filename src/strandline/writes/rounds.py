"""Rounds of work that one thread at a time does for all waiting threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from strandline.locks import Acquirable


class Leadership(Acquirable, Protocol):
    """Held by the working thread: a `threading.Lock`, or the core's equivalent."""

    def release(self) -> None:
        """Let another thread work."""

    def locked(self) -> bool:
        """Whether a thread works."""


class Rounds(Protocol):
    """Counts the rounds begun and ended; one thread at a time does a round."""

    @property
    def begun(self) -> int:
        """How many rounds have begun."""

    @property
    def ended(self) -> int:
        """The last round that has ended successfully."""

    @property
    def sync_s(self) -> float:
        """Seconds spent in rounds that were done in `wait`."""

    @property
    def busy(self) -> Leadership:
        """Held by the working thread, until it releases leadership."""

    def begin(self) -> None:
        """Begin a round; the caller holds `busy`."""

    def end(self) -> None:
        """End the current round."""

    def wait(self, turn: int, /) -> bool:
        """Return True once round `turn` has ended; False at once if only Python can wait for it."""

    def close(self) -> None:
        """End all waits."""

    def renew(self) -> None:
        """Reset the lock in a forked child, where no thread works."""


class PlainRounds:
    """Implements Rounds. In the core's implementation, threads wait without the interpreter."""

    __slots__ = ("begun", "busy", "ended")

    sync_s: Final = 0.0

    def __init__(self) -> None:
        self.begun: int = 0
        self.ended: int = 0
        self.busy: threading.Lock = threading.Lock()

    def begin(self) -> None:
        self.begun += 1

    def end(self) -> None:
        self.ended = self.begun

    def wait(self, turn: int, /) -> bool:  # noqa: ARG002 - Python waits by the stage.
        return False

    def close(self) -> None:
        pass

    def renew(self) -> None:
        self.busy = threading.Lock()


class LoopRounds:
    """The tasks of one loop that wait for rounds of one stage, in the order of the rounds."""

    __slots__ = (
        "_is_ended",
        "_is_notified",
        "_request",
        "_requested",
        "_rounds",
        "_waiting",
        "loop",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rounds: Rounds, request: Callable[[int], None]
    ) -> None:
        self.loop: Final = loop
        self._rounds = rounds
        self._request = request
        #: The last round that a thread was asked to do.
        self._requested = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_notified = False
        self._is_ended = False

    def future(self, turn: int) -> asyncio.Future[None]:
        """Return a future that is done once round `turn` has ended, or none will. On the loop."""
        future = self.loop.create_future()
        self._waiting.append((turn, future))
        if turn > self._requested:
            self._requested = turn
            self._request(turn)
        if self._is_ended or self._rounds.ended >= turn:
            # The round may have ended before the future was queued.
            self._finish()
        return future

    def notify(self) -> None:
        """Complete the futures of rounds that have ended. From any thread."""
        # Invariant: a future is queued before the number of the ended round is read, and a
        # round has ended before the queue is read.
        if not self._waiting or self._is_notified:
            return
        try:
            self._is_notified = True
            # A closed loop raises; no task waits on it any more.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._finish)
        except BaseException:
            self._is_notified = False
            raise

    def end(self) -> None:
        """Complete all futures, now and later: the tasks that await them check again."""
        self._is_ended = True
        self._is_notified = False
        self.notify()

    def _finish(self) -> None:
        self._is_notified = False
        waiting, ended = self._waiting, self._rounds.ended
        while waiting and (self._is_ended or waiting[0][0] <= ended):
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)
