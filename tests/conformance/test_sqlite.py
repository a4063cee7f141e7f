"""`Log` passes the whole suite, with a real and a fake clock."""

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strandline.clock import SystemClock
from strandline.log import Log
from strandline.testing import FakeClock, conformance
from strandline.testing.conformance_checks import OpenLog
from tests.conformance.cases import opening
from tests.logs import sqlite_log

_numbers = itertools.count()


def open_one(folder: Path, **options: Any) -> Log:
    return sqlite_log(str(folder / f"{next(_numbers)}.sqlite"), **options)


# Nothing of the store depends on the kind of clock; what waits by one is tested in memory.
@pytest.fixture(params=[FakeClock, pytest.param(SystemClock, marks=pytest.mark.heavy)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLog]:
    with opening(partial(open_one, tmp_path, clock=request.param())) as opened:
        yield opened


@pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
def test_sqlite_keeps(rule: conformance.Rule, opened: OpenLog) -> None:
    """Rules with TA1, TA3, TA4, TE1, TE2, TE3, WE2, WE4, WE9, WE11, WE14, WE16, WA7, WA8."""
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_sqlite_keeps_in_time(rule: conformance.TimedRule, tmp_path: Path) -> None:
    """Rules with WE11, WE16."""
    with opening(partial(open_one, tmp_path)) as opened:
        rule(lambda clock: opened(clock=clock), FakeClock())
