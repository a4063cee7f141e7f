"""Which calls of a runner may overlap: a suspect is handled while nothing else is."""

import asyncio
import contextlib
import threading
from collections.abc import Hashable
from typing import Final, Protocol

from strandline.clock import Clock, Timer

ALONE_S: Final = 60.0
"""How long a call can keep others from beginning, and a suspect from being alone."""


class Member(Protocol):
    """One trigger, as the gate knows it."""

    @property
    def must_run_alone(self) -> bool:
        """Whether the next record that it would begin is a suspect. Under the gate's lock."""

    def begin_ready(self) -> None:
        """Begin what may begin now. On the loop, without the lock."""


class Gate:
    """Shared by the triggers of one runner, on its event loop. See design 0071.

    A suspect was in flight when a process ended. It begins once no call runs, and none
    begins while it runs, so that if the process ends again it is known which record was
    handled. A call counts for ALONE_S at most: one that takes hours delays the others by
    a minute.

    `lock` guards it and all that decides which call of the runner begins. Calls begin and
    end in any thread; it is held for moments, and neither I/O nor code of the user's
    runs under it.
    """

    def __init__(self, clock: Clock) -> None:
        self.lock: Final = threading.Lock()
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._members: list[Member] = []
        self._inside: set[Hashable] = set()
        self._alone: Hashable | None = None
        self._timer: Timer | None = None
        self.suspects: int = 0
        """How many suspects wait for their turn, in all triggers together."""

    def join(self, member: Member) -> None:
        """Have a trigger called on this loop whenever it may begin more."""
        self._loop = asyncio.get_running_loop()
        with self.lock:
            self._members.append(member)

    def begin_all(self) -> None:
        """Have each trigger begin what it may. On the loop, without the lock."""
        with self.lock:
            # Suspects first: all others wait for them anyway.
            members = sorted(self._members, key=lambda each: not each.must_run_alone)
        for member in members:
            member.begin_ready()

    # --- under the lock ---

    def may_begin(self, *, alone: bool) -> bool:
        """Whether a call may begin now; otherwise its trigger is called later."""
        if alone:
            if self._inside:
                self._set_timer()
            return not self._inside
        return self._alone is None and not self._is_one_awaited()

    def enter(self, call: Hashable, *, alone: bool) -> None:
        """A call begins, which `may_begin`."""
        self._inside.add(call)
        if alone:
            self._alone = call
            self._set_timer()

    def leave(self, call: Hashable) -> bool:
        """A call has ended; return whether other triggers may begin more now: `begin_all`."""
        self._inside.discard(call)
        was_alone = self._alone is call
        if was_alone:
            self._alone = None
        if self._inside:
            return was_alone
        self._cancel_timer()
        return was_alone or self._is_one_awaited()

    def _is_one_awaited(self) -> bool:
        return self.suspects > 0 and any(each.must_run_alone for each in self._members)

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(ALONE_S, self._lapse_on_loop)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- time ---

    def _lapse_on_loop(self) -> None:
        assert self._loop is not None
        # A loop that is closed has no more calls.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lapse)

    def _lapse(self) -> None:
        with self.lock:
            self._timer = None
            self._inside.clear()
            self._alone = None
        self.begin_all()
