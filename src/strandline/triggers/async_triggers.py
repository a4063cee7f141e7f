"""A runner of triggers on the program's own event loop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Self, Unpack

from strandline.log import TopicName
from strandline.log.off_loop import AsyncFace
from strandline.triggers.counters import Counters
from strandline.triggers.trigger import Function, Trigger, TriggerTerms
from strandline.triggers.triggers import Triggers


class AsyncTriggers(AsyncFace[Triggers]):
    """`Triggers` that run on the running event loop: `async with Triggers(…) as triggers`."""

    @property
    def is_running(self) -> bool:
        """Whether records are being handled."""
        return self._blocking.is_running

    def on(self, topic: TopicName, **terms: Unpack[TriggerTerms]) -> Callable[[Function], Function]:
        """Add a function; the options are those of the decorator `strandline.on`."""
        return self._blocking.on(topic, **terms)

    def metrics(self) -> Mapping[str, Counters]:
        """Return the counters of each trigger. As `Triggers.metrics`."""
        return self._blocking.metrics()

    def registered(self) -> Sequence[Trigger]:
        """Return the triggers, in the order in which they were added."""
        return self._blocking.registered()

    async def run(self) -> None:
        """Run until stopped. If it is cancelled, it stops first, as `stop` does."""
        task = await self._blocking._start_on_loop()
        try:
            await asyncio.shield(task)
        finally:
            await self.stop()

    async def start(self) -> None:
        """Start on this loop, and return once records are being handled; `stop` ends it."""
        await self._blocking._start_on_loop()

    async def stop(self, timeout_s: float | None = None) -> None:
        """Stop, within `timeout_s` if given, and return once stopped. May be repeated.

        If an error of the log ended the runner, raises that error. A trigger's function
        would wait for itself here: it calls `request_stop` instead.
        """
        await self._blocking._stop_on_loop(timeout_s)

    def request_stop(self, timeout_s: float | None = None) -> None:
        """Request a stop without waiting for it. May be called from a function, too."""
        self._blocking.request_stop(timeout_s)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
