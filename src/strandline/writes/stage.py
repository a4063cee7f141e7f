"""Work that one waiting thread at a time does for all waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from strandline.clock import Clock
from strandline.locks import Attempt
from strandline.values import UnavailableError
from strandline.writes.ending import Ending
from strandline.writes.loops import check_on_asyncio, running_loop
from strandline.writes.rounds import Leadership, LoopRounds, PlainRounds, Rounds
from strandline.writes.waiter import LoopWaiter, ThreadWaiter
from strandline.writes.watermark import Watermark


class Stage:
    """Raises epochs to one level: written, or durable.

    A waiting thread that finds no other at work does the work for all; the others block
    until their epoch is reached, or until one of them is woken to work next.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[int], None],
        ending: Ending,
        clock: Clock,
        rounds: Rounds | None = None,
    ) -> None:
        self.mark: Final = Watermark()
        #: Counts the rounds of work.
        self.rounds: Final = PlainRounds() if rounds is None else rounds
        #: Asks another thread to work for a round, for event loops.
        self.request_round: Callable[[int], None]
        self._name = name
        self._work = work
        self._ending = ending
        self._clock = clock
        #: Held by the working thread, until it releases leadership.
        self.busy: Leadership = self.rounds.busy
        self.attempt_busy: Attempt = Attempt(self.busy)
        #: Loops with tasks that wait for rounds.
        self._loops: list[LoopRounds] = []

    def is_reached(self, epoch: int, turn: int = 0) -> bool:
        """Whether `epoch` is at this level and `turn` rounds have ended."""
        return self.mark.value >= epoch and self.rounds.ended >= turn

    def attempt(self, epoch: int, turn: int) -> bool:
        """Work towards `epoch` unless another thread does; return whether it is reached."""
        mark, rounds = self.mark, self.rounds
        while mark.value < epoch or rounds.ended < turn:
            if not self.attempt_busy:
                self._check()
                return False
            try:
                try:
                    self._check()
                    self._work(epoch)
                finally:
                    self.busy.release()
                if mark.waiters or self._loops:
                    self.wake_next()
            except BaseException:
                self.wake_next()
                raise
        return True

    def wake_next(self) -> None:
        """Wake the waiters whose epoch is reached, and one that may work next."""
        # Waiters for a round may have their epoch already, and may have checked while `busy`
        # was still held.
        self.mark.wake_reached()
        self.mark.wake_leader()
        for each in tuple(self._loops):
            each.notify()

    def see_rounds(self) -> None:
        """Wake the waiters for rounds that ended in the core."""
        if self.mark.waiters or self._loops:
            self.wake_next()

    def call_next(self) -> None:
        """Wake waiters that registered while no thread was at work."""
        # A working thread releases `busy` first, and then checks for waiters.
        if (self.mark.waiters or self._loops) and not self.busy.locked():
            self.wake_next()

    def reach(self, epoch: int, deadline: float | None = None, turn: int = 0) -> None:
        """Return once `epoch` is at this level, working or blocking meanwhile."""
        if turn and deadline is None:
            self.rounds.wait(turn)
        if self.attempt(epoch, turn):
            return
        waiter = ThreadWaiter(self._clock)
        try:
            with self.mark.awaited_by(waiter, epoch):
                while not self.attempt(epoch, turn):
                    if not waiter.wait(deadline):
                        raise UnavailableError(
                            f"the write was taken but is not {self._name} yet, wait again",
                            epoch=epoch,
                        )
        except BaseException:
            # This waiter may have been woken to work next.
            self.mark.wake_leader()
            raise

    async def reach_on_loop(self, epoch: int, request: Callable[[], None], turn: int = 0) -> None:
        """Return once `epoch` is at this level; `request` asks another thread to work."""
        if self.is_reached(epoch, turn):
            return
        waiter = LoopWaiter()
        with self.mark.awaited_by(waiter, epoch):
            while not self.is_reached(epoch, turn):
                self._check()
                request()
                await waiter.wait()

    def round_on_loop(self, turn: int) -> asyncio.Future[None]:
        """Return a future of the running loop, done once round `turn` has ended or none will."""
        loop = running_loop()
        for each in self._loops:
            if each.loop is loop:
                return each.future(turn)
        check_on_asyncio()
        loop = asyncio.get_running_loop()
        for each in tuple(self._loops):
            if each.loop.is_closed():
                self._loops.remove(each)
        added = LoopRounds(loop, self.rounds, self.request_round)
        self._loops.append(added)
        if self._ending.reason is not None:
            added.end()
        return added.future(turn)

    def end(self) -> None:
        """Wake all waiters to check again: no more work is done."""
        self.rounds.close()
        self.mark.wake_all()
        for each in tuple(self._loops):
            each.end()

    def wait_idle(self, timeout_s: float) -> None:
        """Return once no thread is at work; after the ending, none starts."""
        if not Attempt(self.busy, timeout_s):
            raise UnavailableError(
                f"a thread is still making writes {self._name}, close again later"
            )
        self.busy.release()

    def _check(self) -> None:
        if self._ending.reason is not None:
            raise self._ending.cut_short()

    def renew_lock(self) -> None:
        """Reset the lock in a forked child, where no thread works."""
        self.rounds.renew()
        self.busy = self.rounds.busy
        self.attempt_busy = Attempt(self.busy)
