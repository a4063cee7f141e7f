"""The history checker names each thing that can be wrong with a log, and only those."""

import random
from collections.abc import Hashable

import pytest

from strandline.values import Durability
from tests.model.history import Finding, History


def acknowledged(count: int = 4) -> History:
    """Return a history of a, b, c, … appended one after the other."""
    history = History()
    for offset, value in enumerate("abcdefgh"[:count]):
        history.offer(value)
        history.acknowledge(value, offset)
    return history


def placed(values: str, start: int = 0) -> list[tuple[int, Hashable]]:
    return list(enumerate(values, start))


def test_what_was_acknowledged_is_found() -> None:
    assert acknowledged().check(placed("abcd")) == []


@pytest.mark.parametrize(
    ("content", "findings"),
    [
        (placed("abc"), [Finding("lost", 3, "d")]),
        (placed("abcdx"), [Finding("phantom", 4, "x")]),
        (placed("abcda"), [Finding("duplicated", 4, "a")]),
        ([(0, "a"), (1, "b"), (3, "d")], [Finding("gap", 3, "d"), Finding("lost", 2, "c")]),
    ],
)
def test_it_finds(content: list[tuple[int, Hashable]], findings: list[Finding]) -> None:
    assert acknowledged().check(content) == findings


def test_it_finds_two_values_at_one_offset() -> None:
    findings = acknowledged().check(placed("abdc"))

    assert Finding("two values", 2, "d") in findings
    assert Finding("moved", 2, "d") in findings


def test_it_finds_two_values_acknowledged_for_one_offset() -> None:
    history = acknowledged()
    history.offer("e")
    history.acknowledge("e", 3)

    assert Finding("two values", 3, "e") in history.check(placed("abcd"))


def test_it_finds_what_a_reader_saw_and_another_does_not() -> None:
    history = History()
    history.offer("a")
    history.offer("b")
    history.observe(0, "a")

    assert history.check(placed("b")) == [Finding("two values", 0, "b")]


def test_it_finds_a_write_that_was_reported_as_failed() -> None:
    history = acknowledged()
    history.offer("e")
    history.fail("e")

    assert history.check(placed("abcde")) == [Finding("aborted read", 4, "e")]
    assert history.check(placed("abcd")) == []


def test_an_unknown_write_is_there_once_or_never() -> None:
    history = acknowledged()
    history.offer("e")

    assert history.check(placed("abcd")) == []
    assert history.check(placed("abcde")) == []
    assert history.check(placed("abcdee")) == [Finding("duplicated", 5, "e")]


def test_it_finds_a_write_before_one_that_was_known_before_it_was_offered() -> None:
    history = History()
    history.offer("a")
    history.acknowledge("a", 1)
    history.offer("b")
    history.acknowledge("b", 0)

    assert history.check(placed("ba")) == [Finding("reordered", 1, "a")]


def test_writes_at_the_same_time_may_come_in_any_order() -> None:
    history = History()
    history.offer("a")
    history.offer("b")
    history.acknowledge("a", 1)
    history.acknowledge("b", 0)

    assert history.check(placed("ba")) == []


def test_what_is_appended_together_is_there_as_one() -> None:
    history = History()
    history.offer("a", "b", "c")

    assert history.check([]) == []
    assert history.check(placed("abc")) == []
    assert history.check(placed("ab")) == [Finding("torn", 0, "a")]
    assert [finding.kind for finding in history.check(placed("acb"))] == ["torn"]


def test_what_was_trimmed_is_not_missing() -> None:
    history = acknowledged()
    history.offer("e", "f", "g")
    for offset, value in enumerate("efg", 4):
        history.acknowledge(value, offset)

    assert history.check(placed("fg", 5), low=5) == []
    assert history.check(placed("g", 6), low=5) == [
        Finding("gap", 6, "g"),
        Finding("lost", 5, "f"),
        Finding("torn", None, "f"),
    ]


def test_power_loss_may_take_what_was_not_durable_and_no_more() -> None:
    history = acknowledged(2)
    history.sync(2)
    history.offer("c")
    history.acknowledge("c", 2, Durability.DURABLE)
    history.offer("d")
    history.acknowledge("d", 3)
    history.lose_power()

    assert history.check(placed("abc")) == []
    assert history.check(placed("abcd")) == []
    assert history.check(placed("ab")) == [Finding("lost", 2, "c")]
    assert history.check(placed("a")) == [Finding("lost", 1, "b"), Finding("lost", 2, "c")]


def test_an_offset_that_power_loss_freed_may_be_given_again() -> None:
    history = acknowledged(1)
    history.lose_power()
    history.offer("b")
    history.acknowledge("b", 0)

    assert history.check(placed("b")) == []
    assert history.check(placed("ab"))[0] == Finding("two values", 0, "a")


def test_what_power_loss_left_is_where_it_was() -> None:
    history = acknowledged(2)
    history.lose_power()

    assert history.check(placed("b")) == [Finding("moved", 0, "b")]


@pytest.mark.slow
def test_a_hundred_thousand_records_are_checked_in_one_pass() -> None:
    history = History()
    values = list(range(100_000))
    for offset, value in enumerate(values):
        history.offer(value)
        history.acknowledge(value, offset)
    lost = random.Random(0).randrange(100_000)

    assert history.check(enumerate(values)) == []
    found = history.check((o, v) for o, v in enumerate(values) if v != lost)
    assert Finding("lost", lost, lost) in found
