"""Log keeps every rule of the suite, on a clock of either kind."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.clock import Clock, SystemClock
from strandline.log import Log
from strandline.testing import FakeClock, conformance
from strandline.values import RECORD_BYTES_MAX
from tests.logs import file_log


class Opened:
    """Opens new file logs on one clock, and closes them."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._numbers = itertools.count()
        self._logs: list[Log] = []

    def __call__(
        self, *, auto_create: bool = False, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Log:
        log = file_log(
            str(self._folder / f"log-{next(self._numbers)}.file"),
            clock=self._clock,
            auto_create=auto_create,
            record_bytes_max=record_bytes_max,
        )
        self._logs.append(log)
        return log

    def close(self) -> None:
        for log in self._logs:
            log.close()


# Nothing of the store depends on the kind of clock; what waits by one is tested in memory.
@pytest.fixture(params=[FakeClock, pytest.param(SystemClock, marks=pytest.mark.heavy)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    make: Callable[[], Clock] = request.param
    opened = Opened(tmp_path, make())
    yield opened
    opened.close()


@pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
def test_file_keeps(rule: conformance.Rule, opened: Opened) -> None:
    """Rules with TA1, TA3, TA4, TE1, TE2, TE3, WE2, WE4, WE9, WE11, WE14, WE16, WA7, WA8."""
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_file_keeps_in_time(rule: conformance.TimedRule, tmp_path: Path) -> None:
    """Rules with WE11, WE16."""
    opened: list[Log] = []

    def open_timed(clock: Clock) -> Log:
        opened.append(file_log(str(tmp_path / f"{len(opened)}.file"), clock=clock))
        return opened[-1]

    rule(open_timed, FakeClock())

    for log in opened:
        log.close()
