"""Tasks that wait for a round, woken by one call for all tasks of a loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from strandline.writes.rounds import Rounds


class LoopRounds:
    """The tasks of one loop that wait for rounds of one stage, in the order of the rounds."""

    __slots__ = ("_is_ended", "_is_rung", "_request", "_requested", "_rounds", "_waiting", "loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rounds: Rounds, request: Callable[[int], None]
    ) -> None:
        self.loop: Final = loop
        self._rounds = rounds
        self._request = request
        #: The last round that a thread was requested to do.
        self._requested = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_rung = False
        self._is_ended = False

    def future(self, turn: int) -> asyncio.Future[None]:
        """Return what is done once round `turn` has ended, or none will. On the loop."""
        future = self.loop.create_future()
        self._waiting.append((turn, future))
        if turn > self._requested:
            self._requested = turn
            self._request(turn)
        if self._is_ended or self._rounds.ended >= turn:
            # It may have ended before the future was there to be found.
            self._answer()
        return future

    def ring(self) -> None:
        """Have the futures of rounds that have ended done. From any thread."""
        # Invariant: a future is there before the rounds are looked at, and a round has ended
        # before the futures are.
        if not self._waiting or self._is_rung:
            return
        try:
            self._is_rung = True
            # A closed loop refuses the call; no task waits on it any more.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._answer)
        except BaseException:
            self._is_rung = False
            raise

    def end(self) -> None:
        """Have every future done, now and later: the tasks that await them look again."""
        self._is_ended = True
        self._is_rung = False
        self.ring()

    def _answer(self) -> None:
        self._is_rung = False
        waiting, ended = self._waiting, self._rounds.ended
        while waiting and (self._is_ended or waiting[0][0] <= ended):
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)
