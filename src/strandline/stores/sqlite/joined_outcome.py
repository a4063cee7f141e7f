"""The outcome of an append inside a caller's transaction."""

import asyncio
from collections.abc import Callable
from typing import Any

from strandline.log.store import Placement
from strandline.stores.block_end import still_open
from strandline.stores.sqlite.block import Joined
from strandline.values import Durability
from strandline.writes import Channel

_WRITTEN = Durability.WRITTEN
_DURABLE = Durability.DURABLE


class JoinedOutcome:
    """Implements Outcome. The placement is known at once, and valid if the block is committed."""

    __slots__ = ("_channel", "_joined", "_known", "_placement")

    def __init__(
        self,
        placement: Placement,
        joined: Joined,
        channel: Channel[Any, Any],
        known: Callable[[int], int],
    ) -> None:
        self._placement = placement
        self._joined = joined
        self._channel = channel
        self._known = known

    @property
    def is_settled(self) -> bool:
        return self._joined.block.over.is_over

    @property
    def level(self) -> Durability | None:
        if not self.is_settled or self._joined.error is not None:
            return None
        ends = self._joined.block.ends.items()
        return _DURABLE if all(self._known(slot) >= end for slot, end in ends) else _WRITTEN

    def result(self) -> Placement:
        if self._joined.error is not None:
            raise self._joined.error.with_traceback(None)
        return self._placement

    def wait(self, level: Durability = _WRITTEN, timeout_s: float | None = None) -> Placement:
        clock = self._channel.storage.clock
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        self._joined.block.over.wait(clock, deadline)
        if self._is_short_of(level):
            left_s = None if deadline is None else max(0.0, deadline - clock.monotonic())
            self._channel.flush(durable=True).wait(_DURABLE, left_s)
        return self._placement

    async def wait_on_loop(
        self, level: Durability = _WRITTEN, timeout_s: float | None = None
    ) -> Placement:
        try:
            async with asyncio.timeout(timeout_s):
                await self._joined.block.over.wait_on_loop()
                if self._is_short_of(level):
                    await self._channel.flush(durable=True).wait_on_loop(_DURABLE)
        except TimeoutError:
            raise still_open() from None
        return self._placement

    def _is_short_of(self, wanted: Durability) -> bool:
        self.result()
        return wanted is _DURABLE and self.level is not _DURABLE
