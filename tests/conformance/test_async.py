"""The async face keeps every rule of the suite, driven through a loop by an adapter."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self, cast

import pytest

import strandline as sl
from strandline.clock import Clock, SystemClock
from strandline.log import Log
from strandline.testing import FakeClock, conformance
from strandline.values import RECORD_BYTES_MAX
from tests.conformance.cases import cases
from tests.logs import memory_log

PATIENCE_S = 60.0


class Loop:
    """A loop in a separate thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return what a coroutine returns that is made on the loop."""

        async def made() -> Any:
            return await make()

        return asyncio.run_coroutine_threadsafe(made(), self._loop).result(PATIENCE_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class Looped:
    """A log for the rules: each call is made with the async face, and waited for."""

    def __init__(self, log: Log, loop: Loop) -> None:
        self._log = log
        self._face = sl.AsyncLog(log)
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._face, name, None)
        if not callable(found) or name.startswith("_"):
            return getattr(self._log, name)
        return lambda *args, **given: self._loop.run(lambda: self._made(found, args, given))

    async def _made(self, call: Any, args: Any, given: Any) -> Any:
        result = call(*args, **given)
        if hasattr(result, "__anext__"):
            return iter([item async for item in result])
        made = await result if hasattr(result, "__await__") else result
        # What the rules continue with is the blocking object, where there is one.
        return getattr(made, "blocking", made)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Opened:
    """Opens memory logs on one clock and one loop, and closes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = Loop()
        self._logs: list[Log] = []

    def __call__(
        self, *, auto_create: bool = False, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Log:
        log = memory_log(
            clock=self._clock, auto_create=auto_create, record_bytes_max=record_bytes_max
        )
        self._logs.append(log)
        return cast("Log", Looped(log, self._loop))

    def close(self) -> None:
        for log in self._logs:
            log.close()
        self._loop.close()


@pytest.fixture
def opened() -> Iterator[Opened]:
    opened = Opened(SystemClock())
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("rule", cases(conformance.RULES))
def test_the_async_face_keeps(rule: conformance.Rule, opened: Opened) -> None:
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_the_async_face_keeps_in_time(rule: conformance.TimedRule) -> None:
    loop = Loop()
    rule(lambda clock: cast("Log", Looped(memory_log(clock=clock), loop)), FakeClock())
    loop.close()


def test_an_async_face_that_drops_a_parameter_is_found_out(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forced(self: sl.AsyncLog, *args: Any, **options: Any) -> Any:
        return self.blocking.trim(*args, **{**options, "force": True})

    monkeypatch.setattr(sl.AsyncLog, "trim", forced)
    broken = [rule for rule in conformance.RULES if not _is_kept(rule, opened)]

    assert broken


def _is_kept(rule: conformance.Rule, opened: Opened) -> bool:
    if "trim" not in conformance.name_of(rule):
        return True
    try:
        rule(opened)
    except Exception:  # noqa: BLE001 - Whatever comes, the rule is broken.
        return False
    return True
