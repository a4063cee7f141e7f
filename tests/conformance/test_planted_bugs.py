"""The suite is worth what it finds."""

from collections.abc import Callable
from functools import partial

import pytest

from strandline.log import Log
from strandline.testing import FakeClock, conformance
from tests.conformance.planted_bugs import BUGS, Bug
from tests.logs import memory_log


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_the_suite_finds(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.testing.conformance_hints.PATIENCE_S", 0.2)
    rule = rule_named(bug.rule)
    rule()

    bug.plant(monkeypatch)

    with pytest.raises(Exception):  # noqa: B017, PT011 Whatever comes of the bug.
        rule()


def rule_named(name: str) -> Callable[[], None]:
    for rule in conformance.RULES:
        if conformance.name_of(rule) == name:
            return partial(rule, Log)
    for timed in conformance.TIMED_RULES:
        if conformance.name_of(timed) == name:
            return partial(timed, on_clock, FakeClock())
    raise LookupError(name)


def on_clock(clock: FakeClock) -> Log:
    return memory_log(clock=clock)
