"""The conformance suite: every rule that a log must keep, with any store.

A rule is a function whose name states the rule. Its argument is a function that opens a
new, empty log. It raises AssertionError, or an exception of the log. With pytest:

    @pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
    def test_rule(rule: conformance.Rule) -> None:
        rule(open_log)

and the same for TIMED_RULES, each of which also gets the clock. Without pytest,
`run` does both. Rules are written with `assert`: do not run them with `python -O`.
"""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

from strandline.testing import (
    conformance_appends,
    conformance_consumers,
    conformance_endings,
    conformance_evictions,
    conformance_hints,
    conformance_identities,
    conformance_partitions,
    conformance_proof,
    conformance_reads,
    conformance_times,
    conformance_topics,
)
from strandline.testing.conformance_checks import OpenLog, OpenTimedLog
from strandline.testing.fake_clock import FakeClock

Rule: TypeAlias = Callable[[OpenLog], None]
TimedRule: TypeAlias = Callable[[OpenTimedLog, FakeClock], None]


def name_of(rule: Callable[..., None]) -> str:
    """Return the name of the rule as a sentence."""
    return rule.__name__


def _rules_of(*modules: ModuleType) -> tuple[Callable[..., Any], ...]:
    return tuple(
        function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    )


RULES: tuple[Rule, ...] = _rules_of(
    conformance_topics,
    conformance_appends,
    conformance_identities,
    conformance_reads,
    conformance_consumers,
    conformance_proof,
    conformance_hints,
    conformance_endings,
    conformance_evictions,
)
"""The rules that work with any clock."""

TIMED_RULES: tuple[TimedRule, ...] = _rules_of(conformance_times, conformance_partitions)
"""The rules that advance the clock."""


def run(open_log: OpenLog, open_timed_log: OpenTimedLog) -> dict[str, Exception]:
    """Return the rules that the log breaks, by name, with their exceptions."""
    broken: dict[str, Exception] = {}
    for rule in RULES:
        _try(broken, rule, open_log)
    for timed in TIMED_RULES:
        _try(broken, timed, open_timed_log, FakeClock())
    return broken


def _try(broken: dict[str, Exception], rule: Callable[..., None], *given: object) -> None:
    try:
        rule(*given)
    except Exception as error:  # noqa: BLE001 Whatever a log raises, it breaks the rule.
        broken[name_of(rule)] = error
