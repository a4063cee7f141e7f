"""Log keeps every rule of the suite, on a clock of either kind."""

from collections.abc import Callable, Iterator

import pytest

from strandline.clock import Clock, SystemClock
from strandline.log import Log
from strandline.testing import FakeClock, conformance
from strandline.values import RECORD_BYTES_MAX
from tests.logs import memory_log


class Opened:
    """Opens memory logs on one clock, and closes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logs: list[Log] = []

    def __call__(
        self, *, auto_create: bool = False, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Log:
        log = memory_log(
            clock=self._clock, auto_create=auto_create, record_bytes_max=record_bytes_max
        )
        self._logs.append(log)
        return log

    def close(self) -> None:
        for log in self._logs:
            log.close()


@pytest.fixture(params=[FakeClock, SystemClock])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    make: Callable[[], Clock] = request.param
    opened = Opened(make())
    yield opened
    opened.close()


@pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
def test_memory_keeps(rule: conformance.Rule, opened: Opened) -> None:
    """Rules with TA1, TA3, TA4, WE2, WE6, WE9, WE11, WE14, WE16, WA7, WA8."""
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_memory_keeps_in_time(rule: conformance.TimedRule) -> None:
    """Rules with WE11, WE16."""
    rule(lambda clock: memory_log(clock=clock), FakeClock())
