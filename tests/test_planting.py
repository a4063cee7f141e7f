"""Bugs are planted where their patterns match, or raise an error, and are removed completely."""

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import planting
from tests.conformance import planted_bugs as conformance
from tests.log import test_outbox_planted_bugs, test_sqlite_planted_bugs
from tests.log.files import planted_bugs as crashes
from tests.log.files import test_proof_crashes
from tests.model import planted_bugs as schedules
from tests.planting import Bug
from tests.processes import planted_bugs as processes
from tests.subscriptions import test_broker_planted_bugs
from tests.tiering import test_planted_bugs as tiering
from tests.triggers import test_planted_bugs as triggers

HERE = sys.modules[__name__]


def area(radius: float, *, rounded: bool = False) -> float:
    found = math.pi * radius * radius
    if rounded:
        return math.floor(found)
    return found


class Ledger:
    def __init__(self) -> None:
        self.lines: list[str] = []

    @property
    def size(self) -> int:
        return len(self.lines)

    def add(self, line: str) -> None:
        if line:
            self.lines.append(line)

    @contextlib.contextmanager
    def page(self, first: str) -> Iterator[None]:
        self.add(first)
        yield


def planted(owner: Any, name: str, old: str, new: str) -> contextlib.AbstractContextManager[None]:
    return Bug("a bug", owner, name, old, new).planted()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("math.floor(...)", "7", 7),
        ("math.floor(_)", "_ + 1", 13),
        ("rounded", "not _", math.pi * 4),
        ("_.pi", "1", 4),
        ("found = _", "_; found = found + 1", 13),
        ("if rounded: ...", "pass", math.pi * 4),
        ("return found", "return 0", 12),
    ],
)
def test_the_piece_that_a_pattern_describes_gives_way(old: str, new: str, found: float) -> None:
    with planted(HERE, "area", old, new):
        assert area(2, rounded=True) == pytest.approx(found)

    assert area(2, rounded=True) == 12


def test_methods_properties_and_decorated_ones_can_be_broken() -> None:
    ledger = Ledger()

    with planted(Ledger, "size", "len(...)", "_ + 10"), planted(Ledger, "add", "line", "False"):
        with ledger.page("ignored"):
            assert ledger.size == 10
        broken = planted(Ledger, "page", "self.add(...)", "self.lines.append('broken')")
        with broken, ledger.page("first"):
            assert ledger.lines == ["broken"]

    ledger.add("sound")
    assert ledger.lines == ["broken", "sound"]
    assert ledger.size == 2


def test_arguments_that_are_named_have_to_agree_and_others_do_not() -> None:
    with planted(Ledger, "add", "_.append(line, ...)", "pass"):
        pass
    with pytest.raises(AssertionError), planted(Ledger, "add", "_.append(self, ...)", "pass"):
        pass


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("area", "math.ceil(...)", "7", "nothing in area looks like"),
        ("area", "math.floor(...)", "somewhere", "no such names in area: .'somewhere'"),
        ("area", "found = _", "found = radios", "no such names in area: .'radios'"),
        ("volume", "_", "7", "has no volume any more"),
        ("area", "math.floor(...)", "return 7", "an expression gives way to an expression"),
    ],
)
def test_what_cannot_be_planted_fails_and_changes_nothing(
    name: str, old: str, new: str, reason: str
) -> None:
    with pytest.raises(AssertionError, match=reason), planted(HERE, name, old, new):
        pass

    assert area(2, rounded=True) == 12


def test_a_block_that_raises_leaves_the_sound_function() -> None:
    with pytest.raises(LookupError), planted(HERE, "area", "math.floor(...)", "7"):
        raise LookupError

    assert area(2, rounded=True) == 12


def test_a_module_that_has_imported_a_function_has_the_bug_too() -> None:
    vars(planting)["area"] = area
    try:
        with planted(HERE, "area", "math.floor(...)", "7"):
            assert vars(planting)["area"](2, rounded=True) == 7
        assert vars(planting)["area"] is area
    finally:
        del vars(planting)["area"]


EVERY_BUG: list[Bug] = [
    *schedules.COORDINATOR_BUGS,
    *crashes.CRASH_BUGS,
    *test_proof_crashes.BUGS,
    *(each.bug for each in conformance.BUGS),
    *(each.bug for each in processes.PROCESS_BUGS),
    *(each.bug for each in test_sqlite_planted_bugs.BUGS),
    *(each.bug for each in test_outbox_planted_bugs.BUGS),
    *(each.bug for each in test_broker_planted_bugs.BUGS),
    *(each.bug for each in tiering.BUGS),
    *(each.bug for each in triggers.BUGS),
]


@pytest.mark.slow
def test_every_bug_of_the_suite_can_be_planted() -> None:
    for bug in EVERY_BUG:
        with bug.planted():
            pass
