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
    """`Triggers` that work on the running event loop: `async with Triggers(…) as triggers`."""

    @property
    def is_running(self) -> bool:
        """Whether records are being handled."""
        return self._blocking.is_running

    def on(self, topic: TopicName, **terms: Unpack[TriggerTerms]) -> Callable[[Function], Function]:
        """Add a function, as the decorator `strandline.on` describes it."""
        return self._blocking.on(topic, **terms)

    def metrics(self) -> Mapping[str, Counters]:
        """Return what each trigger has done. As `Triggers.metrics`."""
        return self._blocking.metrics()

    def registered(self) -> Sequence[Trigger]:
        """Return the triggers that were added, in this order."""
        return self._blocking.registered()

    async def run(self) -> None:
        """Work until stopped. Cancelled, it stops first, as `stop` does."""
        task = await self._blocking._start_on_loop()
        try:
            await asyncio.shield(task)
        finally:
            await self.stop()

    async def start(self) -> None:
        """Work on this loop, from when this returns until `stop`."""
        await self._blocking._start_on_loop()

    async def stop(self, timeout_s: float | None = None) -> None:
        """Stop within `timeout_s` if given, and return when it has. May be repeated.

        Raises what ended the runner, if that was the log. From a trigger's function, which
        would wait for itself, call `request_stop`.
        """
        await self._blocking._stop_on_loop(timeout_s)

    def request_stop(self, timeout_s: float | None = None) -> None:
        """Have it stop, and do not wait for that. From anywhere, also from a function."""
        self._blocking.request_stop(timeout_s)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
