"""Bugs of the C core are planted where their patterns match, or raise an error."""

import pytest

from tests.core.planting import Bug
from tests.core.test_planted_bugs import BUGS, BUGS_OF_STORED_ENDS, SOUND, STORED_ONLY

SOURCES = {
    "one.c": "static int *taken(int *to, int n) { if (n < 5 && put(to, n)) n += 1; return to; }",
    "two.c": "bool has_room(int n) { return n < 5; }",
    "three.c": "bool has_room(int n) { return n < 7; }",
}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("n < 5", "0", "if ((0) && put(to, n)) n += 1;"),
        ("n < _", "_ || n", "if (((n < 5) || n) && put(to, n)) n += 1;"),
        ("put(...)", "1", "if (n < 5 && (1)) n += 1;"),
        ("put(to, ...)", "1", "if (n < 5 && (1)) n += 1;"),
        ("_ && _", "1", "if (1) n += 1;"),
        ("n += _", "n -= 1", "if (n < 5 && put(to, n)) (n -= 1);"),
        ("1", "2", "if (n < 5 && put(to, n)) n += (2);"),
    ],
)
def test_the_expression_that_a_pattern_describes_gives_way(old: str, new: str, found: str) -> None:
    planted = Bug("a bug", "taken", old, new).planted(SOURCES)

    assert planted == {
        **SOURCES,
        "one.c": f"static int *taken(int *to, int n) {{ {found} return to; }}",
    }


@pytest.mark.parametrize("written", ["n<5", "(n < 5)", "n\n  < 5", "n /* so far */ < (5)"])
def test_the_way_in_which_an_expression_is_written_does_not_count(written: str) -> None:
    sources = {"one.c": f"bool has_room(int n) {{ return {written}; }}"}

    planted = Bug("a bug", "has_room", "n < 5", "1").planted(sources)

    assert planted["one.c"] == "bool has_room(int n) { return (1); }"


@pytest.mark.parametrize(
    ("function", "old", "reason"),
    [
        ("taken", "n < 6", "nothing looks like 'n < 6' in taken"),
        ("taken", "put(n, ...)", "nothing looks like"),
        ("taken", "put(to)", "nothing looks like"),
        ("given", "n < 5", "nothing looks like 'n < 5' in given"),
        ("has_room", "n < _", "several files have 'n < _' in has_room: .'two.c', 'three.c'"),
        ("taken", "n <", "no expression: 'n <'"),
    ],
)
def test_a_bug_without_one_place_is_an_error(function: str, old: str, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        Bug("a bug", function, old, "1").planted(SOURCES)


def test_a_file_among_several_with_the_function_is_found_by_the_expression() -> None:
    planted = Bug("a bug", "has_room", "n < 7", "1").planted(SOURCES)

    assert planted == {**SOURCES, "three.c": "bool has_room(int n) { return (1); }"}


def test_every_bug_of_the_core_has_its_place() -> None:
    for bug in BUGS:
        bug.planted(SOUND)
    stored_only = STORED_ONLY.planted(SOUND)
    for bug in BUGS_OF_STORED_ENDS:
        bug.planted(stored_only)
