"""Looks topics up ahead of time, so that appends on an event loop need not wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from strandline.log.topic_lane import ROUTE_CHECK_S
from strandline.values import StrandlineError

_EVERY_S: Final = ROUTE_CHECK_S / 2


class EarlyLooks:
    """Looks up, in a thread, each topic in use before the next append would have to.

    For one event loop at a time. Topics without recent appends are not looked up.
    """

    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look
        self._timers: dict[str, asyncio.TimerHandle] = {}
        #: Topics appended to since the last lookup; for these, `note` need not be called again.
        self.used: set[str] = set()

    def note(self, topic: str) -> None:
        """Note an append on the running loop."""
        self.used.add(topic)
        if topic not in self._timers:
            self._plan(asyncio.get_running_loop(), topic)

    def forget(self, topic: str) -> None:
        """Start over with a topic: an append had to look it up, as after its loop was closed."""
        self.used.discard(topic)
        if (timer := self._timers.pop(topic, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        """Stop all lookups."""
        for topic in tuple(self._timers):
            self.forget(topic)

    def _plan(self, loop: asyncio.AbstractEventLoop, topic: str) -> None:
        self._timers[topic] = loop.call_later(_EVERY_S, self._due, loop, topic)

    def _due(self, loop: asyncio.AbstractEventLoop, topic: str) -> None:
        del self._timers[topic]
        if topic in self.used:
            self.used.discard(topic)
            # A loop that is closing accepts no more work, and makes no more appends.
            with contextlib.suppress(RuntimeError):
                loop.run_in_executor(None, self._look_quietly, topic)
                self._plan(loop, topic)

    def _look_quietly(self, topic: str) -> None:
        try:
            self._look(topic)
        except (StrandlineError, OSError):
            # The next append meets the same error, and raises it to its caller.
            return
