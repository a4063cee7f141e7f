"""Decides which calls of a runner may overlap: a suspect runs alone."""

import asyncio
import contextlib
import threading
from collections.abc import Hashable
from typing import Final, Protocol

from strandline.clock import Clock, Timer

ALONE_S: Final = 60.0
"""How long a running call can delay a suspect, and a running suspect all other calls."""


class Member(Protocol):
    """One trigger, as the gate sees it."""

    @property
    def must_run_alone(self) -> bool:
        """Whether the next record to begin is a suspect. Under the gate's lock."""

    def begin_ready(self) -> None:
        """Begin all calls that may begin now. On the loop, without the lock."""


class Gate:
    """Shared by the triggers of one runner, on its event loop. See design 0071.

    A suspect was in flight when a process ended. It begins when no other call runs, and no
    call begins while it runs; if the process ends again, the record that caused this is known.
    A call counts as running for at most ALONE_S, so one that takes hours delays the others by
    a minute.

    `lock` guards the gate and all state that decides which call of the runner begins. Calls
    begin and end in any thread. The lock is held briefly; no I/O and no user code runs under
    it.
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
        """How many suspects wait to begin, in all triggers together."""

    def join(self, member: Member) -> None:
        """Register a trigger: `begin_ready` is called on this loop when it may begin more."""
        self._loop = asyncio.get_running_loop()
        with self.lock:
            self._members.append(member)

    def begin_all(self) -> None:
        """Call `begin_ready` of each trigger. On the loop, without the lock."""
        with self.lock:
            # Triggers with a suspect first: the others have to wait for it anyway.
            members = sorted(self._members, key=lambda each: not each.must_run_alone)
        for member in members:
            member.begin_ready()

    # --- under the lock ---

    def may_begin(self, *, alone: bool) -> bool:
        """Whether a call may begin now; if not, `begin_ready` is called later."""
        if alone:
            if self._inside:
                self._set_timer()
            return not self._inside
        return self._alone is None and not self._is_one_awaited()

    def enter(self, call: Hashable, *, alone: bool) -> None:
        """Register a call that begins; `may_begin` has returned True."""
        self._inside.add(call)
        if alone:
            self._alone = call
            self._set_timer()

    def leave(self, call: Hashable) -> bool:
        """Unregister an ended call; return whether `begin_all` is to be called now."""
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
        # A closed loop has no more calls.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lapse)

    def _lapse(self) -> None:
        with self.lock:
            self._timer = None
            self._inside.clear()
            self._alone = None
        self.begin_all()
