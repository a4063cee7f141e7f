"""Any argument to any public call: one of our errors that names it, or nothing stored."""

from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.log import appending, positions, topic_changes
from strandline.log import log as log_module
from strandline.values import arguments
from tests.hostile import commands
from tests.hostile.attack import Case, attack, cases, sample
from tests.hostile.commands import Command
from tests.hostile.good_calls import CALLS, COMPONENTS, COMPONENTS_OF
from tests.hostile.not_attacked import not_attacked
from tests.hostile.surface import parameters, surface

SEED = 20261116


def test_every_public_callable_is_attacked_or_says_why_not() -> None:
    found = surface()

    unknown = [name for name in found if name not in CALLS and not_attacked(name) is None]
    gone = [name for name in CALLS if name not in found]

    assert unknown == [], "add a good call of these to tests/hostile/good_calls.py"
    assert gone == []


@pytest.mark.slow
def test_every_good_call_names_parameters_that_there_are() -> None:
    found = surface()
    taken = {name: set(parameters(function)) for name, function in found.items()}

    assert {each.parameter for each in cases()} >= {"topic", "partition", "where", "timeout_s"}
    for name, wanted in COMPONENTS_OF.items():
        assert wanted <= taken[name]
    assert set().union(*taken.values()) >= COMPONENTS


@pytest.mark.parametrize(
    ("scheme", "values_each"),
    [
        pytest.param("memory", 3, marks=pytest.mark.slow),
        pytest.param("file", 1, marks=pytest.mark.heavy),
        pytest.param("sqlite", 1, marks=pytest.mark.heavy),
    ],
)
def test_a_hostile_argument_is_refused_and_nothing_is_stored(scheme: str, values_each: int) -> None:
    assert attack(sample(SEED, values_each), scheme) == []


CHOSEN = [
    Case("Log.append", "value", "batch of an odd index"),
    Case("Log.create_topic", "schema", "bytes"),
    Case("Log.create_topic", "name", "raising text"),
    Case("Log.evict", "before", "digit"),
    Case("Log.read", "start", "true"),
    Case("Log.subscribe", "where", "surrogate"),
    Case("Log.verify", "expected", "list"),
    Case("Receipt.wait", "timeout_s", "raising number"),
    Case("Scope.publish", "name", "uuid4"),
    Case("Scope.register", "schema", "deep schema"),
    Case("Scope.register", "schema", "schema with a zone"),
    Case("ScopedSubscription.next", "timeout_s", "text"),
    Case("Triggers", "stop_timeout_s", "NaN"),
    Case("describe", "url", "raising text"),
    Case("install", "log_or_url", "raising text"),
    Case("open", "url", "file of a surrogate"),
    Case("open", "url", "raising text"),
    Case("parse_predicate", "schema", "schema of an odd name"),
    Case("tier", "topic", "raising"),
]


@pytest.mark.slow
def test_the_arguments_that_were_found_first_are_refused() -> None:
    assert attack(CHOSEN, "memory") == []


def _as_it_is(_: str, value: Any, *__: Any, **___: Any) -> Any:
    return value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("home", "check", "case"),
    [
        (appending, "check_items", Case("Log.append_many", "keys", "one")),
        (topic_changes, "check_flag", Case("Log.trim", "force", "text")),
        (topic_changes, "check_whole", Case("Log.trim", "before", "text")),
        (positions, "checked_position", Case("Log.resolve", "position", "object")),
    ],
)
def test_without_a_check_a_hostile_argument_is_found(home: Any, check: str, case: Case) -> None:
    """Planted: each check that is taken out lets something through that is reported."""
    assert attack([case], "memory") == []

    passing = _as_it_is if check != "checked_position" else lambda value: value
    with mock.patch.object(home, check, passing):
        assert len(attack([case], "memory")) == 1


def test_every_command_is_attacked_or_says_why_not() -> None:
    found = set(commands.commands())

    assert found - {*commands.GOOD, *commands.NOT_ATTACKED} == set(), "add a good call of these"
    assert {*commands.GOOD, *commands.NOT_ATTACKED} - found == set()


@pytest.mark.slow
def test_a_hostile_word_of_a_command_is_refused_and_nothing_is_stored() -> None:
    chosen = [Command(*each) for each in CHOSEN_WORDS] + commands.sample(SEED, 40)

    assert commands.attack(chosen) == []


@pytest.mark.heavy
def test_many_hostile_words_of_commands_are_refused() -> None:
    assert commands.attack(commands.sample(SEED + 1, 400)) == []


CHOSEN_WORDS = [
    ("create", "topic", None, "surrogate"),
    ("read", "where", "--where", "predicate"),
    ("trim", "before", "--before", "huge"),
    ("tier", "store", None, "store"),
    ("import", "path", None, "device"),
    ("pipeline init", "folder", None, "newline"),
    ("seek", "place", None, "time beyond"),
    ("verify", "expected", "--expected", "NUL"),
]


@pytest.mark.slow
def test_a_command_that_lets_an_error_through_is_found() -> None:
    """Planted: a check that raises what the program does not know."""

    def failing(*_: Any, **__: Any) -> Any:
        raise ValueError("planted")

    with mock.patch.object(log_module.Log, "trim", failing):
        assert len(commands.attack([Command("trim", "before", "--before", "number")])) == 1


def test_what_cannot_be_called_watches_no_assignment() -> None:
    wrong: Any = sl.Durability.DURABLE
    with sl.open("memory:") as log:
        log.create_topic("events")
        with pytest.raises(sl.InvalidError, match=r"on_assignment is a function.*'Durability'"):
            log.consumer("events", "c", on_assignment=wrong)
        assert not log.consumers("events")


def test_an_error_shows_a_value_that_cannot_be_shown() -> None:
    class Unshown:
        def __repr__(self) -> str:
            raise ValueError

        def __eq__(self, other: object) -> bool:
            raise ValueError

        __hash__ = None  # type: ignore[assignment] # Compares no more than it shows.

    with pytest.raises(sl.InvalidError, match=r"flag is True or False: flag=<.*Unshown>"):
        arguments.check_flag("flag", Unshown())
