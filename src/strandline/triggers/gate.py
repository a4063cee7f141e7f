"""Which calls of a runner may overlap: a suspect is handled while nothing else is."""

import asyncio
import contextlib
from collections.abc import Hashable
from typing import Final, Protocol

from strandline.clock import Clock, Timer

ALONE_S: Final = 60.0
"""How long a call can keep others from beginning, and a suspect from being alone."""


class Member(Protocol):
    """One trigger, as the gate knows it."""

    @property
    def must_run_alone(self) -> bool:
        """Whether the next record that it would begin is a suspect."""

    def begin_ready(self) -> None:
        """Begin what may begin now."""


class Gate:
    """Shared by the triggers of one runner, on its event loop. See design 0071.

    A suspect was in flight when a process ended. It begins once no call runs, and none
    begins while it runs, so that if the process ends again it is known which record was
    handled. A call counts for ALONE_S at most: one that takes hours delays the others by
    a minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._members: list[Member] = []
        self._inside: set[Hashable] = set()
        self._alone: Hashable | None = None
        self._timer: Timer | None = None

    def join(self, member: Member) -> None:
        """Have a trigger called whenever it may begin more."""
        self._members.append(member)

    def may_begin(self, *, alone: bool) -> bool:
        """Whether a call may begin now; otherwise its trigger is called later."""
        if alone:
            if self._inside:
                self._set_timer()
            return not self._inside
        return self._alone is None and not any(each.must_run_alone for each in self._members)

    def enter(self, call: Hashable, *, alone: bool) -> None:
        """A call begins, which `may_begin`."""
        self._inside.add(call)
        if alone:
            self._alone = call
            self._set_timer()

    def leave(self, call: Hashable) -> None:
        """A call has ended."""
        self._inside.discard(call)
        was_alone = self._alone == call
        if was_alone:
            self._alone = None
        if not self._inside:
            self._cancel_timer()
        if was_alone or (not self._inside and any(each.must_run_alone for each in self._members)):
            self._begin_all()

    def _begin_all(self) -> None:
        # Suspects first: all others wait for them anyway.
        for member in sorted(self._members, key=lambda each: not each.must_run_alone):
            member.begin_ready()

    def _set_timer(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = self._clock.call_later(ALONE_S, lambda: self._lapse_on(loop))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _lapse_on(self, loop: asyncio.AbstractEventLoop) -> None:
        # A loop that is closed has no more calls.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._lapse)

    def _lapse(self) -> None:
        self._timer = None
        self._inside.clear()
        self._alone = None
        self._begin_all()
