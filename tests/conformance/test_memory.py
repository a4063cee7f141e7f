"""`Log` passes the whole suite, with a real and a fake clock."""

from collections.abc import Iterator
from functools import partial

import pytest

from strandline.clock import SystemClock
from strandline.testing import FakeClock, conformance
from strandline.testing.conformance_checks import OpenLog
from tests.conformance.cases import opening
from tests.logs import memory_log


@pytest.fixture(params=[FakeClock, SystemClock])
def opened(request: pytest.FixtureRequest) -> Iterator[OpenLog]:
    with opening(partial(memory_log, clock=request.param())) as opened:
        yield opened


@pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
def test_memory_keeps(rule: conformance.Rule, opened: OpenLog) -> None:
    """Rules with TA1, TA3, TA4, WE2, WE6, WE9, WE11, WE14, WE16, WA7, WA8."""
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_memory_keeps_in_time(rule: conformance.TimedRule) -> None:
    """Rules with WE11, WE16."""
    rule(lambda clock: memory_log(clock=clock), FakeClock())
