"""Topics are looked at in time, on a loop whose time the test steers."""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from strandline.log.async_log import AsyncLog, append_now
from strandline.log.early_looks import EarlyLooks
from strandline.testing import FakeClock
from strandline.values import ClosedError, Event
from tests.core.plain import needs_core
from tests.logs import file_log

HALF_S = 0.51


class SteeredLoop(asyncio.SelectorEventLoop):
    """A loop for which no time passes, until `advance`."""

    _now = 0.0

    def time(self) -> float:
        """See asyncio."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything that is due be done, in threads as well."""
        self.pass_time(seconds)
        for _ in range(3):
            await asyncio.sleep(0)
        await self.run_in_executor(None, lambda: None)


@pytest.fixture
def loop() -> Iterator[SteeredLoop]:
    loop = SteeredLoop()
    # One thread: what is done after another has seen it done.
    loop.set_default_executor(ThreadPoolExecutor(1))
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def run(loop: SteeredLoop, steps: Coroutine[Any, Any, None]) -> None:
    loop.run_until_complete(steps)


def test_a_topic_is_looked_at_as_long_as_it_is_appended_to(loop: SteeredLoop) -> None:
    looked: list[str] = []
    looks = EarlyLooks(looked.append)

    async def steps() -> None:
        for _ in range(3):
            for _ in range(5):
                looks.note("a")
            await loop.advance(HALF_S)
        assert looked == ["a"] * 3
        for _ in range(3):
            await loop.advance(HALF_S)
        assert looked == ["a"] * 3
        looks.note("a")
        looks.note("b")
        await loop.advance(HALF_S)
        assert looked[3:] == ["a", "b"]
        looks.close()

    run(loop, steps())


def test_a_topic_that_is_forgotten_or_closed_is_not_looked_at(loop: SteeredLoop) -> None:
    looked: list[str] = []
    looks = EarlyLooks(looked.append)

    async def steps() -> None:
        looks.note("a")
        looks.note("b")
        looks.forget("a")
        looks.forget("never known")
        await loop.advance(HALF_S)
        assert looked == ["b"]
        looks.note("b")
        looks.close()
        await loop.advance(HALF_S)
        assert looked == ["b"]

    run(loop, steps())


@pytest.mark.parametrize("error", [ClosedError("closed"), OSError("gone")])
def test_a_look_that_fails_is_left_to_the_next_append(loop: SteeredLoop, error: Exception) -> None:
    looked: list[str] = []
    unhandled: list[Any] = []

    def look(topic: str) -> None:
        looked.append(topic)
        raise error

    async def steps() -> None:
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        looks = EarlyLooks(look)
        for _ in range(2):
            looks.note("a")
            await loop.advance(HALF_S)
        looks.close()

    run(loop, steps())
    assert (looked, unhandled) == (["a", "a"], [])


def test_a_loop_that_is_being_closed_looks_no_more(loop: SteeredLoop) -> None:
    looked: list[str] = []
    unhandled: list[Any] = []
    looks = EarlyLooks(looked.append)

    async def steps() -> None:
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        looks.note("a")
        await loop.shutdown_default_executor()
        loop.pass_time(HALF_S)
        for _ in range(3):
            await asyncio.sleep(0)

    run(loop, steps())
    assert (looked, unhandled) == ([], [])


@needs_core
def test_an_append_on_a_loop_finds_its_topic_looked_at(loop: SteeredLoop, tmp_path: Path) -> None:
    clock = FakeClock()

    async def steps() -> None:
        async with AsyncLog(file_log(str(tmp_path / "log"), clock=clock)) as log:
            await log.create_topic("orders")
            for _ in range(3):
                log.blocking.append("orders", Event("a"))
            assert append_now(log, "orders", Event("a"), {}) is not None
            clock.advance(0.9)
            await loop.advance(HALF_S)
            clock.advance(0.9)
            assert append_now(log, "orders", Event("a"), {}) is not None
            clock.advance(0.9)
            # Without a look in time, the next append has to look itself.
            assert append_now(log, "orders", Event("a"), {}) is None
            log.blocking.append("orders", Event("a"))
            assert append_now(log, "orders", Event("a"), {}) is not None

    run(loop, steps())
