"""Every rule of a log, behind a real server, over a store in memory and one in files."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.clock import Clock
from strandline.log import Log
from strandline.stores.remote import RemoteStore
from strandline.testing import FakeClock, conformance
from tests.conformance.cases import cases
from tests.logs import file_log, memory_log
from tests.stores.remote.switchboard import Switchboard

OpenLog = Callable[..., Log]


@pytest.fixture(params=["memory", pytest.param("file", marks=pytest.mark.heavy)])
def open_log(
    request: pytest.FixtureRequest, switchboard: Switchboard, tmp_path: Path
) -> Iterator[OpenLog]:
    with contextlib.ExitStack() as opened:
        numbers = iter(range(100))

        def served(clock: Clock | None) -> Log:
            if request.param == "memory":
                return memory_log(clock=clock)
            return file_log(str(tmp_path / f"{next(numbers)}"), clock=clock)

        def open_one(*, clock: FakeClock | None = None, **options: Any) -> Log:
            log = opened.enter_context(served(clock))
            store = RemoteStore(switchboard.serve(log), clock=clock)
            return opened.enter_context(Log(store, clock=clock, **options))

        yield open_one


@pytest.mark.slow
@pytest.mark.parametrize("rule", cases(conformance.RULES))
def test_rule(rule: conformance.Rule, open_log: OpenLog) -> None:
    rule(open_log)


@pytest.mark.slow
@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_timed_rule(rule: conformance.TimedRule, open_log: OpenLog) -> None:
    rule(lambda clock: open_log(clock=clock), FakeClock())
